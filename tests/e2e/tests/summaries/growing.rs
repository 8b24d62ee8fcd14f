//! A conversation that grows turn by turn has chunks and groups of chunks too.

use crate::condenser::{Prompt, condenser, prompt, turns};
use crate::talk::{of_level, scene, talk_from, tokens_of, whole};
use memory_agent_e2e::Uuid;
use memory_agent_e2e::memory::run;

/// Tokens of a chunk here.
const CHUNK: i64 = 400;
const TURNS: usize = 44;

#[test]
fn chunks_and_groups_come_when_enough_turns_have_come_together() {
    let settings = [("memory_agent.compression", "off"), ("memory_agent.max_entries", "0")];
    let mut scene = scene(condenser, &settings);
    run(&mut scene.client, &format!("SET memory_agent.summary_chunk_tokens = {CHUNK}"));
    let mut said: Vec<Uuid> = Vec::new();
    let (mut parts, mut most_calls) = (Vec::new(), 0);
    for number in 0..TURNS {
        let before = scene.stub.call_count();
        said.extend(talk_from(&mut scene.client, "s", number, 1, 120));
        scene.drain();
        most_calls = most_calls.max(scene.stub.call_count() - before);
        parts.push(of_level(&mut scene.client, "s", "L1").len());
    }
    // Below 3,000 tokens a paragraph is enough; what was said until then gets its chunks one by one.
    let first = parts.iter().position(|chunks| *chunks > 0).unwrap();
    let covered = |client: &mut _, turns: usize| tokens_of(client, &said[..turns]);
    assert!(covered(&mut scene.client, first + 1) >= 3000, "at turn {first}");
    assert!(covered(&mut scene.client, first) < 3000, "at turn {first}");
    assert!(parts.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{parts:?}");
    assert!(most_calls <= 3, "{most_calls} calls for a turn");

    let summary = whole(&mut scene.client, "s");
    assert_eq!(summary.method, "detailed");
    assert_eq!(summary.sources, said[TURNS - 1..], "the summary goes on turn by turn");
    let chunks = of_level(&mut scene.client, "s", "L1");
    let in_chunks: Vec<Uuid> = chunks.iter().flat_map(|chunk| chunk.sources.clone()).collect();
    assert_eq!(in_chunks, said[..in_chunks.len()], "in order, each turn in one, without gaps");
    for chunk in &chunks {
        assert!(chunk.is_active && i64::from(chunk.input) <= CHUNK, "{chunk:?}");
        assert_eq!(i64::from(chunk.input), tokens_of(&mut scene.client, &chunk.sources));
        assert_eq!(chunk.messages as usize, chunk.sources.len());
        assert_eq!(chunk.first, chunk.sources.first().copied());
        assert!(chunk.ratio <= 0.12 * 1.2, "{chunk:?}");
    }
    let rest = tokens_of(&mut scene.client, &said[in_chunks.len()..]);
    assert!(rest < CHUNK, "{rest} tokens are in no chunk");
    let groups = of_level(&mut scene.client, "s", "L2");
    assert_eq!(groups.len(), (chunks.len() - 1) / 5, "of {} chunks", chunks.len());
    assert!(!groups.is_empty());
    for (group, of) in groups.iter().zip(chunks.chunks(5)) {
        let sources: Vec<Uuid> = of.iter().flat_map(|chunk| chunk.sources.clone()).collect();
        assert_eq!(group.sources, sources);
        assert_eq!(group.input, of.iter().map(|chunk| chunk.output).sum::<i32>());
        assert_eq!((group.first, group.last), (of[0].first, of[4].last));
    }
    // What a chunk is made of is asked as it was said.
    let calls = scene.stub.calls();
    let asked: Vec<usize> = calls
        .iter()
        .filter(|call| prompt(call) == Prompt::Chunk)
        .map(|call| turns(call).len())
        .collect();
    assert_eq!(asked, chunks.iter().map(|chunk| chunk.sources.len()).collect::<Vec<_>>());

    // Erasing a turn takes the parts away that were made of it.
    run(&mut scene.client, &format!("SELECT memory_erase(id => '{}')", said[0]));
    for level in ["L1", "L2", "L3"] {
        let left = of_level(&mut scene.client, "s", level);
        assert!(left.iter().all(|part| !part.sources.contains(&said[0])), "{level}");
    }
}

#[test]
fn a_long_conversation_without_parts_catches_up() {
    let settings = [("memory_agent.compression", "off"), ("memory_agent.max_entries", "0")];
    let mut scene = scene(condenser, &settings);
    // As until 0.2.0: turn by turn, and no parts.
    let first = talk_from(&mut scene.client, "s", 0, 30, 120);
    scene.drain();
    run(&mut scene.client, "DELETE FROM memory_agent.session_summaries WHERE level <> 'L3'");
    run(&mut scene.client, &format!("SET memory_agent.summary_chunk_tokens = {CHUNK}"));
    let mut all = first;
    for number in 30..44 {
        all.extend(talk_from(&mut scene.client, "s", number, 1, 120));
        scene.drain();
    }
    let chunks = of_level(&mut scene.client, "s", "L1");
    let in_chunks: Vec<Uuid> = chunks.iter().flat_map(|chunk| chunk.sources.clone()).collect();
    assert_eq!(in_chunks, all[..in_chunks.len()]);
    assert!(tokens_of(&mut scene.client, &all[in_chunks.len()..]) < 2 * CHUNK);
}
