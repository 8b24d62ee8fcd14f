//! The scenarios for servers of @modelcontextprotocol/conformance, the protocol's own: those that are about what the
//! gateway has pass, and why the others do not apply stands here. One that comes, goes, passes or fails is a finding.

use crate::clients::installed;
use crate::for_ann;
use crate::libraries::has_their_node;
use crate::upstream::Upstream;
use memory_agent_e2e::Gateway;
use std::collections::BTreeMap;
use std::process::Command;

/// Why a scenario does not apply.
const LOGGING: &str = "the gateway sends clients no log";
const COMPLETIONS: &str = "the gateway completes no arguments";
const TOOLS: &str = "it calls a tool of the reference server, which the gateway does not have";
const RESOURCES: &str = "the gateway has no resources";
const PROMPTS: &str = "the gateway has no prompts";

/// Of every scenario, how many checks pass, or why it does not apply.
const EXPECTED: [(&str, Result<u32, &str>); 32] = [
    ("server-initialize", Ok(1)),
    ("ping", Ok(1)),
    ("tools-list", Ok(1)),
    ("dns-rebinding-protection", Ok(2)),
    ("logging-set-level", Err(LOGGING)),
    ("completion-complete", Err(COMPLETIONS)),
    ("tools-call-simple-text", Err(TOOLS)),
    ("tools-call-image", Err(TOOLS)),
    ("tools-call-audio", Err(TOOLS)),
    ("tools-call-embedded-resource", Err(TOOLS)),
    ("tools-call-mixed-content", Err(TOOLS)),
    ("tools-call-with-logging", Err(TOOLS)),
    ("tools-call-error", Err(TOOLS)),
    ("tools-call-with-progress", Err(TOOLS)),
    ("tools-call-sampling", Err(TOOLS)),
    ("tools-call-elicitation", Err(TOOLS)),
    ("json-schema-2020-12", Err(TOOLS)),
    ("elicitation-sep1034-defaults", Err(TOOLS)),
    ("elicitation-sep1330-enums", Err(TOOLS)),
    // Without their tools, these check nothing and end well.
    ("server-sse-polling", Ok(0)),
    ("server-sse-multiple-streams", Ok(0)),
    ("resources-list", Err(RESOURCES)),
    ("resources-read-text", Err(RESOURCES)),
    ("resources-read-binary", Err(RESOURCES)),
    ("resources-templates-read", Err(RESOURCES)),
    ("resources-subscribe", Err(RESOURCES)),
    ("resources-unsubscribe", Err(RESOURCES)),
    ("prompts-list", Err(PROMPTS)),
    ("prompts-get-simple", Err(PROMPTS)),
    ("prompts-get-with-args", Err(PROMPTS)),
    ("prompts-get-embedded-resource", Err(PROMPTS)),
    ("prompts-get-with-image", Err(PROMPTS)),
];

/// How many checks of each scenario pass and fail.
fn outcomes(gateway: &Gateway) -> BTreeMap<String, (u32, u32)> {
    let home = installed("mcp-typescript", "tests/gateway/mcp/package-lock.json");
    let program = home.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let hook = std::env::current_dir().unwrap().join("tests/gateway/mcp/scenarios.mjs");
    let url = format!("http://{}/mcp", gateway.address());
    let mut node = Command::new("node");
    node.arg("--import").arg(hook).arg(program).args(["server", "--suite", "all", "--url", &url]);
    let output = node.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, summary) = said.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("{output:?}"));
    let lines = summary.lines().filter_map(|line| {
        let (name, counts) = line.trim_start_matches(['✓', '✗', ' ']).split_once(": ")?;
        let (passed, failed) = counts.strip_suffix(" failed")?.split_once(" passed, ")?;
        Some((name.to_owned(), (passed.parse().ok()?, failed.parse().ok()?)))
    });
    lines.filter(|(name, _)| name != "Total").collect()
}

#[test]
fn every_scenario_passes_or_does_not_apply() {
    if !has_their_node() {
        return;
    }
    let (gateway, _client) = for_ann("mcp_scenarios", &Upstream::saying("Yes."), &[]);
    let mut found = outcomes(&gateway);
    for (name, expected) in EXPECTED {
        let (passed, failed) = found.remove(name).unwrap_or_else(|| panic!("{name} is gone"));
        match expected {
            Ok(checks) => assert_eq!((passed, failed), (checks, 0), "{name}"),
            Err(why) => assert_eq!((passed, failed), (0, 1), "{name} was left out: {why}"),
        }
    }
    assert_eq!(found, BTreeMap::new(), "new scenarios");
}
