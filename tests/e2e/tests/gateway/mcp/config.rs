//! `memory-agent mcp --print-config` prints what docs/mcp.md shows.

use super::program;
use memory_agent_e2e::{Json, bindir};

/// The options of the examples.
const OPTIONS: [&str; 4] =
    ["--user", "ann", "--database", "host=/run/postgresql dbname=mydb user=gateway"];
/// Where Debian has the program.
const DOCUMENTED: &str = "/usr/lib/postgresql/15/bin/memory-agent";

#[track_caller]
fn printed(client: &str, options: &[&str]) -> String {
    let output = program(&[&["--print-config", client], options].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The code blocks of docs/mcp.md.
fn documented() -> Vec<&'static str> {
    let page = include_str!("../../../../../docs/mcp.md");
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').unwrap().1).collect()
}

#[test]
fn the_documentation_shows_what_is_printed() {
    let here = bindir().join("memory-agent").canonicalize().unwrap();
    for client in ["claude-desktop", "claude-code", "cursor", "vscode"] {
        let printed = printed(client, &OPTIONS).replace(&*here.to_string_lossy(), DOCUMENTED);
        assert!(
            documented().contains(&printed.trim_end()),
            "{client}: docs/mcp.md lacks\n{printed}"
        );
    }
}

#[test]
fn a_secret_is_in_the_environment_of_the_server() {
    let options = ["--token", "mat_1", "--database", "host=it's password=secret"];
    let config: Json = serde_json::from_str(&printed("vscode", &options)).unwrap();
    let server = &config["servers"]["memory"];
    assert_eq!(server["args"], memory_agent_e2e::json!(["mcp"]));
    assert_eq!(server["env"]["MEMORY_AGENT_TOKEN"], "mat_1");
    assert_eq!(server["env"]["MEMORY_AGENT_DATABASE"], options[3]);
    // A shell makes one word of it again.
    let command = printed("claude-code", &options);
    let words = std::process::Command::new("sh")
        .args(["-c", &command.replacen("claude", "printf %s\\\\n", 1)])
        .output()
        .unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let server: Json = serde_json::from_str(words.lines().last().unwrap()).unwrap();
    assert_eq!(server["env"]["MEMORY_AGENT_DATABASE"], options[3]);
}
