//! `contrib/monitoring`: its files can be read, what they ask the database runs with the role that they name, and
//! every metric that a rule or a panel is about is one of the gateway's or of the queries.

use crate::http::{chat, says, send};
use crate::upstream::Upstream;
use crate::{cluster, for_ann};
use memory_agent_e2e::Json;
use memory_agent_e2e::memory::run;
use std::collections::BTreeSet;
use std::path::Path;
use yaml_rust2::{Yaml, YamlLoader};

const DATABASE: &str = "monitoring";

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/monitoring").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(name: &str) -> Yaml {
    YamlLoader::load_from_str(&text(name)).unwrap().remove(0)
}

/// The names of metrics in an expression of Prometheus, without what a histogram adds to its name.
fn metrics(expression: &str) -> Vec<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("memory_"));
    ours.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn files_for_monitoring_ask_for_what_there_is() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut superuser) = for_ann(DATABASE, &upstream, &[]);
    chat(&gateway, &[], &says("s", "Is it well?")).json();
    let shown = send(gateway.address(), "GET", "/metrics", &[], "").rest().unwrap();
    let types = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut known: BTreeSet<String> = types.map(str::to_owned).collect();

    // As a role of level user, where each query has something to count.
    run(
        &mut superuser,
        "CREATE ROLE prometheus LOGIN; SELECT memory_grant('prometheus', 'user'); \
         ALTER ROLE prometheus SET memory_agent.user_id = 'prometheus'; \
         SET memory_agent.embed_on_ingest = 'async'; \
         SELECT memory_ingest('s', 'user', 'For later.', user_id => 'ann')",
    );
    let mut exporter = cluster().connect_as(DATABASE, "prometheus");
    let queries = yaml("postgres_exporter.yaml");
    for (name, query) in queries.as_hash().unwrap() {
        let (name, sql) = (name.as_str().unwrap(), query["query"].as_str().unwrap());
        let rows = exporter.query(sql, &[]).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(!rows.is_empty(), "{name} finds nothing");
        let columns: Vec<&str> = rows[0].columns().iter().map(|column| column.name()).collect();
        let described: Vec<&str> = query["metrics"]
            .as_vec()
            .unwrap()
            .iter()
            .map(|metric| {
                let (column, description) = metric.as_hash().unwrap().front().unwrap();
                let column = column.as_str().unwrap();
                match description["usage"].as_str() {
                    Some("GAUGE") => drop(known.insert(format!("{name}_{column}"))),
                    usage => assert_eq!(usage, Some("LABEL"), "{name}, {column}"),
                }
                column
            })
            .collect();
        assert_eq!(columns, described, "{name}");
    }

    let mut asked = Vec::new();
    for group in yaml("alerts.yaml")["groups"].as_vec().unwrap() {
        for rule in group["rules"].as_vec().unwrap() {
            assert!(rule["alert"].as_str().is_some() && rule["for"].as_str().is_some(), "{rule:?}");
            assert!(rule["annotations"]["summary"].as_str().is_some(), "{rule:?}");
            asked.push(rule["expr"].as_str().unwrap().to_owned());
        }
    }
    let dashboard: Json = serde_json::from_str(&text("grafana.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            asked.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    assert!(asked.len() > 20, "{asked:?}");
    for expression in asked {
        let metrics = metrics(&expression);
        assert!(!metrics.is_empty(), "{expression}");
        for metric in metrics {
            assert!(known.contains(&metric), "{metric} is not there: {expression}\n{known:?}");
        }
    }
}
