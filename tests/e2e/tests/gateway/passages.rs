//! What a chat sends upstream of long memories.

use crate::for_ann;
use crate::http::send;
use crate::upstream::{Upstream, completion};
use memory_agent_e2e::json;
use memory_agent_e2e::memory::value;

/// Three logs of 40 kB were 124 kB of a question of 40 letters.
#[test]
fn long_memories_go_upstream_as_passages() {
    let upstream = Upstream::start(|_, answer| answer.json(&completion("")));
    let (gateway, mut client) = for_ann("passages", &upstream, &[]);
    let answer = "The shard leader timed out because its disk was full.";
    for run in 0..3 {
        let half = format!("Check of run {run} found nothing to report.\n").repeat(450);
        let text = format!("Why does the shard leader time out?\n{half}{answer}\n{half}");
        let ingest = "SELECT memory_ingest('logs', 'user', $1, user_id => 'ann')::text";
        value::<String>(&mut client, ingest, &[&text]);
    }
    let question = "Why did the shard leader time out: a full disk?";
    let body = json!({"model": "m", "messages": [{"role": "user", "content": question}]});
    let headers = [("x-memory-id", "now")];
    let path = "/v1/chat/completions";
    let got = send(gateway.address(), "POST", path, &headers, &body.to_string()).json();
    let sent = upstream.last().body;
    assert!(sent.len() < 6000, "{}", sent.len());
    assert_eq!(sent.matches(answer).count(), 3, "{sent}");
    let hits = got["memory_hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3, "{got}");
    for hit in hits {
        assert_eq!(hit["shortened"], true, "{hit}");
        assert!(sent.contains(&format!("part of {}]", hit["id"].as_str().unwrap())), "{sent}");
    }
}
