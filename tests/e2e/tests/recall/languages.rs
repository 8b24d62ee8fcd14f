//! Languages: words are indexed by the text search configuration of their agent or session, and found by every
//! configuration that the user's memory is indexed by; phrases come from the folder of the language.

use crate::relevance_only;
use memory_agent_e2e::memory::{explain, ingest, recall, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, expect_error, shared};

const WITHOUT_MODELS: &str =
    "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off";

fn speaks(client: &mut Client, agent: &str, configuration: &str) {
    let settings = format!("{{\"text_search_config\": \"{configuration}\"}}");
    let sql = format!("SELECT memory_configure('{agent}', settings => '{settings}')");
    run(client, &sql);
}

#[test]
fn an_agent_has_a_language() {
    let mut client = shared().database("languages_agent").connect();
    run(&mut client, WITHOUT_MODELS);
    speaks(&mut client, "heidi", "german");
    run(&mut client, "SET memory_agent.agent_id = 'heidi'");
    ingest(&mut client, "s", "Die alten Häuser stehen am Fluss.");
    run(&mut client, "SELECT memory_add('Er kauft zwei Bücher.', infer => false)");
    let configurations: Vec<String> =
        values(&mut client, "SELECT DISTINCT lexeme_config FROM memory_agent.entries", &[]);
    assert_eq!(configurations, ["german"]);
    assert_eq!(
        recalled_texts(&mut client, "'Wo ist das Haus?'"),
        ["Die alten Häuser stehen am Fluss."]
    );
    assert_eq!(recalled_texts(&mut client, "'ein Buch'"), ["Er kauft zwei Bücher."]);
    assert!(recall(&mut client, "'die'").is_empty(), "a stop word of the language");
    let shown: String = value(
        &mut client,
        "SELECT memory_configure('heidi') -> 'settings' ->> 'text_search_config'",
        &[],
    );
    assert_eq!(shown, "german");
}

#[test]
fn a_session_has_a_language_and_all_are_found_together() {
    let mut client = shared().database("languages_session").connect();
    run(&mut client, WITHOUT_MODELS);
    for (session, configuration) in [("german", "german"), ("other", "simple")] {
        run(
            &mut client,
            &format!(
                "SELECT memory_configure(session_id => '{session}', \
                        settings => '{{\"text_search_config\": \"{configuration}\"}}')"
            ),
        );
    }
    ingest(&mut client, "german", "Unsere Häuser haben Gärten.");
    ingest(&mut client, "english", "Our houses have gardens.");
    ingest(&mut client, "other", "Domy maja ogrody.");
    // By its own stem, whichever configuration the query has.
    assert_eq!(recalled_texts(&mut client, "'Garten'"), ["Unsere Häuser haben Gärten."]);
    assert_eq!(recalled_texts(&mut client, "'house'"), ["Our houses have gardens."]);
    assert_eq!(recalled_texts(&mut client, "'ogrody'"), ["Domy maja ogrody."]);
    assert!(recall(&mut client, "'ogrod'").is_empty(), "nothing is stemmed");
    let ask = |configuration: &str| {
        format!(
            "SELECT memory_configure(session_id => 'german', settings => '{{\"text_search_config\": {configuration}}}')"
        )
    };
    // What was indexed stays as it was indexed.
    run(&mut client, &ask("null"));
    assert!(recall(&mut client, "'Garten'").is_empty());
    run(&mut client, &ask("\"german\""));
    assert_eq!(recall(&mut client, "'Garten'").len(), 1);
}

/// A word counts once, however many configurations know it, and a language that none of the rows found is in
/// changes no score.
#[test]
fn other_languages_do_not_change_scores() {
    let mut client = shared().database("languages_scores").connect();
    run(&mut client, WITHOUT_MODELS);
    relevance_only(&mut client);
    ingest(&mut client, "s", "The cats are sleeping in the garden.");
    ingest(&mut client, "s", "A cat and a dog.");
    ingest(&mut client, "s", "The dogs bark.");
    let arguments = "'Where do cats and dogs sleep?', top_k => 9";
    let before = recall(&mut client, arguments);
    assert_eq!(before.len(), 3);
    speaks(&mut client, "else", "german");
    speaks(&mut client, "more", "simple");
    let after = recall(&mut client, arguments);
    let numbers = |rows: &[memory_agent_e2e::memory::Recalled]| -> Vec<_> {
        rows.iter().map(|row| (row.id, row.lexical, row.score)).collect()
    };
    assert_eq!(numbers(&before), numbers(&after));
}

#[test]
fn only_administrators_choose_and_only_what_exists() {
    let database = shared().database("languages_admins");
    let mut client = database.connect();
    run(&mut client, "CREATE ROLE languages_user LOGIN; SELECT memory_grant('languages_user')");
    let wish = "SELECT memory_configure(settings => '{\"text_search_config\": \"german\"}')";
    expect_error(database.connect_as("languages_user").query(wish, &[]), "42501");
    let message = expect_error(
        client.query(
            "SELECT memory_configure(settings => '{\"text_search_config\": \"klingon\"}')",
            &[],
        ),
        "42704",
    );
    assert!(message.contains("klingon"), "{message}");
    // A configuration of one's own is stored under the name by which it is found whatever the search_path.
    run(
        &mut client,
        "CREATE SCHEMA words; CREATE TEXT SEARCH CONFIGURATION words.short (COPY = simple); \
         SELECT memory_configure('short', settings => '{\"text_search_config\": \"words.short\"}')",
    );
    run(&mut client, WITHOUT_MODELS);
    run(&mut client, "SET memory_agent.agent_id = 'short'");
    ingest(&mut client, "s", "Cats sleep");
    let configuration: String =
        value(&mut client, "SELECT DISTINCT lexeme_config FROM memory_agent.entries", &[]);
    assert_eq!(configuration, "words.short");
    assert_eq!(recall(&mut client, "'cats'").len(), 1);
    // Without it, its agent is told so, and others go on.
    run(&mut client, "DROP TEXT SEARCH CONFIGURATION words.short");
    expect_error(client.query("SELECT memory_ingest('s', 'user', 'Dogs bark')", &[]), "42704");
    run(&mut client, "SET memory_agent.agent_id = 'other'");
    ingest(&mut client, "t", "Dogs bark");
    assert_eq!(recalled_texts(&mut client, "'dogs'"), ["Dogs bark"]);
}

#[test]
fn phrases_are_those_of_the_language() {
    let mut client = shared().database("languages_phrases").connect();
    run(&mut client, WITHOUT_MODELS);
    for (configuration, decision, today) in [
        ("german", "Wir haben beschlossen, PostgreSQL zu nehmen.", "Was ist heute passiert?"),
        ("french", "Nous avons décidé de garder PostgreSQL.", "Que s'est-il passé aujourd'hui ?"),
        ("spanish", "Hemos decidido quedarnos con PostgreSQL.", "¿Qué pasó hoy?"),
        ("italian", "Abbiamo deciso di restare con PostgreSQL.", "Che cosa è successo oggi?"),
        ("portuguese", "Decidimos ficar com o PostgreSQL.", "O que aconteceu hoje?"),
        ("english", "We decided to keep PostgreSQL.", "What happened today?"),
        // No folder has the name, so the phrases are English.
        ("simple", "We decided to keep PostgreSQL.", "What happened today?"),
    ] {
        speaks(&mut client, configuration, configuration);
        run(&mut client, &format!("SET memory_agent.agent_id = '{configuration}'"));
        let id = ingest(&mut client, "s", decision);
        let markers: Vec<String> =
            value(&mut client, "SELECT markers FROM memory_agent.entries WHERE id = $1", &[&id]);
        assert_eq!(markers, ["decision"], "{configuration}");
        let asks = |client: &mut Client, query: &str| {
            let query = query.replace('\'', "''");
            let explained = explain(client, &format!("'{query} PostgreSQL'"));
            explained["recency_weight"].as_f64().is_some_and(|weight| weight > 0.3)
        };
        run(
            &mut client,
            "SET memory_agent.ranking = weighted; SET memory_agent.recency_weight = 0.2",
        );
        assert!(asks(&mut client, today), "{configuration}");
        assert!(!asks(&mut client, "?"), "{configuration}");
    }
}
