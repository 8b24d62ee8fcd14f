//! An LLM that writes a summary of about the length it is asked for.

use memory_agent_e2e::llm::Call;

/// Nine tokens of cl100k_base.
const SENTENCE: &str = "The talk went on about bikes and trains. ";
const SENTENCE_TOKENS: u32 = 9;

/// The prompts, by the first lines of their instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prompt {
    Brief,
    Standard,
    Chunk,
    Meta,
    Rolling,
    Other,
}

pub fn prompt(call: &Call) -> Prompt {
    let system = call.system();
    let first = system.lines().next().unwrap_or_default();
    let known = [
        ("You condense a short text into one sentence.", Prompt::Brief),
        ("You condense a text into one paragraph.", Prompt::Standard),
        ("You condense one part of a long text", Prompt::Chunk),
        ("You join summaries of consecutive parts", Prompt::Meta),
        ("You bring a summary up to date", Prompt::Rolling),
    ];
    known
        .into_iter()
        .find(|(beginning, _)| first.starts_with(beginning))
        .map_or(Prompt::Other, |(_, prompt)| prompt)
}

pub fn wants_sections(call: &Call) -> bool {
    call.system().lines().any(|line| line.trim() == "## TOPICS")
}

/// The length that is asked for, in tokens. A test of the endpoint asks for none.
pub fn target(call: &Call) -> u32 {
    if call.is_test() {
        return SENTENCE_TOKENS;
    }
    let system = call.system();
    let rest = system.split_once("Write at most ").expect("a request with a length").1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number of tokens")
}

/// The texts of the turns that are asked about.
pub fn turns(call: &Call) -> Vec<String> {
    let data = call.data();
    let turns = data["turns"].as_array().map_or(&[][..], Vec::as_slice);
    turns.iter().filter_map(|turn| turn["text"].as_str()).map(str::to_owned).collect()
}

/// A text of at most so many tokens, and not much less.
pub fn text_of(tokens: u32) -> String {
    SENTENCE.repeat((tokens / SENTENCE_TOKENS).max(1) as usize).trim_end().to_owned()
}

/// The model: a good summary for every question.
pub fn condenser(call: &Call) -> String {
    answer(call, &text_of(target(call)))
}

/// One that writes `factor` times as much as it is asked for, also when it is asked to shorten.
pub fn chatterbox(factor: u32) -> impl Fn(&Call) -> String {
    move |call: &Call| answer(call, &text_of(target(call) * factor))
}

fn answer(call: &Call, summary: &str) -> String {
    if !wants_sections(call) {
        return summary.to_owned();
    }
    format!(
        "## SUMMARY\n{summary}\n\n## TOPICS\nbikes, trains\n\n## ENTITIES\nAnna, Oslo\n\n\
         ## DECISIONS\n- Take the train.\n\n## QUESTIONS\nNone"
    )
}
