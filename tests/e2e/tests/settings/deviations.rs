//! What suites set of the extension's settings, and why. The documents and every installation have the
//! defaults, so a suite that sets another value tests something else than what ships: that needs a reason.

use super::table::settings;
use memory_agent_e2e::memory::values;
use memory_agent_e2e::{Database, shared, shared_without_worker};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Setting, suites that set it, why they do. `harness` is `tests/e2e/src`, `common` what some suites share.
/// "Its effect" is what the suite tests, at values beside the default.
const DEVIATIONS: &str = "
agent_id | background chat context erase ingest page recall settings upgrade window worker | who remembers, where a test has two agents
archive_conversations | isolation plans summaries | so that short conversations end in an archive too
archive_idle_after | background | so that a session is idle while the test waits
assistant_decisions | reflection worker | its effect
audit_key_file | history window | signatures need a key, which no server has by default
auto_detect_markers | ingest lifecycle reflection | its effect: on turns, new versions, and facts of episodes
chunk_tokens | context lifecycle markdown | documents of a few sentences with several chunks
compression | gateway summaries worker | off, where a test is about facts or proxied chats and counts calls of the LLM; its effect
compression_threshold_tokens | isolation plans summaries window | windows that are long after a few turns
context_limit | chat context ingest window | small windows; in ingest, one that holds the largest message
cross_session | context | its effect
cross_session_agents | chat | its effect
cross_session_triggers | context ingest | its effect; in ingest, the longest list
default_top_k | isolation processes recall settings window | its effect, and a setting whose change is easily seen
default_ttl | background ingest | memories that expire while the test runs; its effect
dense_weight | recall | its effect, and words alone
embed_on_ingest | background chat common context dump erase facts gateway inference ingest isolation lifecycle page pgbouncer properties quotas recall security settings standby summaries upgrade window | off, where a test is about words or has many rows and no question about meaning; async, where it is about the job
embedding_api_key_file | inference | its effect: an endpoint of the test
embedding_api_version | inference | its effect: an endpoint of the test
embedding_base_url | background inference model_change | an endpoint of the test
embedding_dimension | inference | its effect: an endpoint of the test
embedding_model | background inference model_change settings | the model of that endpoint; the former default and others, to change to and from
embedding_provider | background inference | its effect: an endpoint of the test
episode_gap | ingest reflection | its effect
episode_max_turns | ingest properties recall reflection | episodes that end after few turns, or do not end
exact_scan_rows | dump inference model_change recall security | the path through the indexes, with few rows
extraction | background chat erase facts lifecycle reflection summaries window worker | off, where the turns alone matter or the LLM repeats all it is told; episode, for facts of whole episodes
extraction_batch | worker | its effect, and jobs of known size
extraction_context | reflection worker | its effect, and requests of known content
fact_scope | background reflection worker | its effect, and facts that several sessions share
identity | attach docs gateway isolation page pgbouncer security settings | each mode, where a test is about who may do what, or about a server that insists on users
inference | background cancel chat inference processes | each mode, where a test is about processes, interrupts or endpoints
inference_threads | harness processes recall settings | its effect; in the harness as many as tests run side by side, so that none has the rerank of another refused; two, where a test has recalls refused
inference_timeout | background settings | failures sooner than by default, and waits that no timeout ends
job_workers | background summaries worker | two jobs at once, and one alone
language_dir | settings | its effect
llm_answer_tokens | worker | its effect
llm_api_key_file | chat settings worker | endpoints of the test that want a key
llm_api_version | settings | its effect
llm_base_url | background chat docs dump gateway inference isolation plans reflection secrets security settings standby summaries upgrade window worker | no server has an LLM by default: the stand-in of the test
llm_calls_per_minute | worker | its effect
llm_concurrency | background worker | calls one by one, or several at once whatever the machine has
llm_daily_tokens | background chat worker | its effect
llm_key_dir | worker | keys of the test
llm_max_attempts | background inference isolation model_change reflection summaries worker | jobs that give up while the test waits, and some that do not
llm_model | background chat docs dump gateway inference isolation plans secrets security settings standby upgrade window worker | the name of the stand-in
llm_provider | chat settings | its effect
llm_timeout | background chat upgrade window worker | failures sooner than by default, and calls that last
marker_weight | recall reflection | its effect, and scores without it
max_content_bytes | attach security settings window | its effect, with short texts
max_entries | background ingest plans smoke summaries window worker | its effect, with few rows; in smoke, a setting whose change is easily seen
max_workers | background | its effect
memory_message | chat | its effect, in all its forms
memory_tokens | chat context | its effect; large, where parts of conversations are cut to fit a budget
min_episode_turns | background lifecycle reflection worker | episodes of one turn that are reflected on
model_dir | faults settings | its effect: other models, broken ones, none
model_server_path | chat context faults gateway security settings | no model server, or a broken one; in chat, one that starts late
neighbor_weight | ingest model_change recall | its effect; 0, where each turn is compared by itself
onnxruntime_path | faults settings | its effect: a broken one, none
prompt_metadata | context | its effect
prompt_stale_sources | chat context | its effect
prompt_tokenizer | context | its effect
purge_after | background lifecycle worker | its effect: rows that are purged while the test runs
query_rewrite | chat worker | its effect; in worker, every question that an agent's endpoint gets
ranking | page recall | weighted: the arithmetic of that formula, which ships as the choice of those who want fixed weights; what the page says with it
read_contradiction_check | chat erase worker | its effect; in worker, every question that an agent's endpoint gets
recency_weight | ingest model_change recall reflection window | its effect; 0, where meaning alone is compared; in window, whose value is in effect
recent_messages_to_keep | summaries upgrade worker | windows that are compressed after a few turns
relevance_threshold | chat context worker | its effect; -1, where whatever is found is to be in the prompt
rerank | chat context inference isolation lifecycle model_change page processes properties recall reflection settings upgrade window | off, where a test is about another step or about words, and rows come in an order that it knows; its effect; what the page says without it
rerank_model | background chat settings summaries | none, where only jobs run and a model would cost time; its effect
rerank_rows | context recall | its effect; 100, where a test compares what every candidate gets
score_threshold | chat recall | its effect; 0, where nothing is to be dropped
secret_phrases | secrets | its effect
secrets | secrets | its effect
session_recall | chat context recall worker | its effect, and tests whose sessions are to know nothing of each other
stale_sources | context recall reflection worker window | its effect, and its counterpart in prompts; in window, an enum among the settings shown
statement_check | worker | its effect
summarization | erase gateway summaries window worker | off, where a test is about facts or proxied chats and counts calls of the LLM; on, where an erasure has to find summaries; its effect
summary_chunk_tokens | summaries window | its effect, and texts of a few sentences with several chunks
summary_min_tokens | inference summaries window | its effect, and summaries of short texts
summary_model | summaries window worker | its effect
sweep_interval | attach background dump erase lifecycle model_change reflection secrets summaries upgrade worker | seconds, so that a test need not wait for the default
text_search_config | settings | its effect
trace | chat erase settings worker | its effect, and copies of texts that an erasure has to find
ungrounded_facts | reflection worker | its effect
user_id | attach background chat common context dump erase facts gateway harness history inference isolation lifecycle markdown model_change page pgbouncer quotas recall reflection security settings summaries upgrade window worker | who asks: a test's sessions name their user, as every application does
worker | attach background chat dump erase faults gateway harness inference ingest lifecycle page security standby upgrade window | off, where rows are to stay as they are or jobs are to stay queued; on again later
";

/// Suites that set a setting whose name a variable holds.
const ANY_NAME: [(&str, &str); 3] = [
    ("security", "names that an attacker tries, and values that no id may have"),
    ("settings", "every setting takes its bounds and nothing beyond"),
    ("worker", "names of keys, which nobody may set"),
];

/// The suites with the weighted ranking are at most one in so many.
const FEW: usize = 10;

/// Suites with the text of each of their files.
fn suites() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut suites: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut directories = vec![root.join("src"), root.join("tests")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|kind| kind == "rs" || kind == "sql");
            if path.is_dir() {
                directories.push(path);
            } else if is_source && !path.ends_with("settings/deviations.rs") {
                let suite = match path.strip_prefix(root.join("tests")) {
                    Ok(inside) => Path::new(inside.iter().next().unwrap()).file_stem().unwrap(),
                    Err(_) => "harness".as_ref(),
                };
                let text = std::fs::read_to_string(&path).unwrap();
                suites.entry(suite.to_string_lossy().into_owned()).or_default().push(text);
            }
        }
    }
    assert!(suites.len() > 30, "{:?}", suites.keys());
    suites
}

/// The names after `memory_agent.` that a source sets, as far as they are words.
fn set_in(source: &str) -> BTreeSet<&str> {
    let sets = source.match_indices("memory_agent.").filter_map(|(at, prefix)| {
        let (before, after) = (&source[..at], &source[at + prefix.len()..]);
        let is_part =
            |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_';
        let (name, after) =
            after.split_at(after.find(|sign| !is_part(sign)).unwrap_or(after.len()));
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_comment = line.trim_start().starts_with("//");
        (!is_comment && is_set(before.trim_end(), after)).then_some(name)
    });
    sets.collect()
}

/// Whether a name between these two is that of a setting which gets a value.
fn is_set(before: &str, after: &str) -> bool {
    // SET and its forms, ALTER SYSTEM, ALTER DATABASE.
    let word = before.rsplit(|sign: char| !sign.is_ascii_alphanumeric()).next().unwrap_or_default();
    if ["SET", "LOCAL", "SESSION"].contains(&word) {
        return true;
    }
    // A line of a file, an option. In Markdown, a name has no value.
    if after.trim_start_matches(' ').starts_with('=') {
        return !before.ends_with('`');
    }
    // A string with a value after it: set_config, alter_system, setting, pairs. Not a name in a list of names.
    let Some(quote) = before.chars().next_back().filter(|sign| ['"', '\''].contains(sign)) else {
        return false;
    };
    let Some(next) = after.strip_prefix(quote).and_then(|after| after.strip_prefix(',')) else {
        return false;
    };
    let next = next.trim_start_matches([' ', '\n', '\\']);
    let is_list = next.starts_with(']')
        || next.strip_prefix(quote).is_some_and(|next| next.starts_with("memory_agent."));
    !is_list && !before.trim_end_matches(quote).ends_with("current_setting(")
}

#[test]
fn whatever_a_suite_sets_has_a_reason() {
    let mut reasons = BTreeSet::new();
    let mut weighted = 0;
    for row in DEVIATIONS.trim().lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [setting, suites, reason] = cells[..] else { panic!("three cells: {row}") };
        assert!(reason.split_whitespace().count() > 1, "a reason: {row}");
        for suite in suites.split(' ') {
            assert!(reasons.insert((setting.to_owned(), suite.to_owned())), "twice: {row}");
        }
        if setting == "ranking" {
            weighted = suites.split(' ').count();
        }
    }
    let suites = suites();
    assert!(weighted * FEW <= suites.len(), "{weighted} suites do not have the ranking that ships");

    let known: BTreeSet<&str> = settings().map(|setting| setting.0).collect();
    let mut found = BTreeSet::new();
    let mut of_any_name = BTreeSet::new();
    for (suite, sources) in &suites {
        for name in sources.iter().flat_map(|source| set_in(source)) {
            if known.contains(name) {
                found.insert((name.to_owned(), suite.clone()));
            }
        }
        if sources.iter().any(|source| source.contains("SET memory_agent.{")) {
            of_any_name.insert(suite.as_str());
        }
    }
    let missing: Vec<_> = found.difference(&reasons).collect();
    let unused: Vec<_> = reasons.difference(&found).collect();
    assert!(missing.is_empty(), "no reason is given for {missing:?}");
    assert!(unused.is_empty(), "nobody sets {unused:?}");
    assert_eq!(of_any_name, ANY_NAME.map(|(suite, _)| suite).into());
}

#[test]
fn what_sets_a_setting_is_recognised() {
    for source in [
        "SET memory_agent.rerank = off",
        "SET LOCAL memory_agent.rerank TO off",
        "ALTER DATABASE d SET memory_agent.rerank = off",
        "SELECT set_config('memory_agent.rerank', $1, false)",
        "builder.setting(\n    \"memory_agent.rerank\",\n    \"off\",\n)",
        "cluster.alter_system(\"memory_agent.rerank\", Some(\"off\"))",
        "[(\"memory_agent.rerank\", \"off\")]",
        "options=-c memory_agent.rerank=off",
    ] {
        assert_eq!(set_in(source), ["rerank"].into(), "{source}");
    }
    for source in [
        "SHOW memory_agent.rerank",
        "RESET memory_agent.rerank",
        "SELECT current_setting('memory_agent.rerank', true)",
        "name IN ('memory_agent.rerank', 'memory_agent.ranking')",
        "// SET memory_agent.rerank = off",
    ] {
        assert!(set_in(source).is_empty(), "{source}");
    }
}

/// Of the clusters that suites share, and of every cluster that says nothing else. The threads of the model server are
/// those of the tests.
#[test]
fn shared_clusters_have_what_ships() {
    let changed = |database: Database<'_>| -> Vec<String> {
        let sql = "SELECT concat(name, ' = ', reset_val) FROM pg_settings \
                    WHERE name LIKE 'memory\\_agent.%' AND reset_val IS DISTINCT FROM boot_val \
                      AND name <> 'memory_agent.inference_threads' ORDER BY name";
        values(&mut database.connect(), sql, &[])
    };
    assert_eq!(changed(shared().database("deviations")), [""; 0]);
    let without_worker = shared_without_worker().database("deviations");
    assert_eq!(changed(without_worker), ["memory_agent.worker = off"]);
    // The identity of a test's session, and nothing else.
    let of_the_session: Vec<String> = values(
        &mut shared().database("deviations_session").connect(),
        "SELECT name FROM pg_settings WHERE name LIKE 'memory\\_agent.%' AND setting IS DISTINCT FROM boot_val \
            AND name <> 'memory_agent.inference_threads'",
        &[],
    );
    assert_eq!(of_the_session, ["memory_agent.user_id"]);
}
