//! What a user puts into a client's configuration, so that the client starts `memory-agent mcp`.

use crate::args::{Client, Person};
use serde_json::{Map, json};
use std::path::Path;

/// The name under which a client shows the server.
const NAME: &str = "memory";

/// The text for a client. Options are variables of the environment there: arguments of a command are shown to
/// every user of a machine, and a token or a password may be among them.
pub fn config(
    client: Client,
    program: &Path,
    options: &Person,
    variable: impl Fn(&str) -> Option<String>,
) -> String {
    let mut environment = Map::new();
    let given = [
        ("MEMORY_AGENT_DATABASE", Some(&options.database).filter(|text| !text.is_empty())),
        ("MEMORY_AGENT_USER", options.user.as_ref()),
        ("MEMORY_AGENT_TOKEN", options.token.as_ref()),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            environment.insert(name.to_owned(), json!(value));
        }
    }
    // A client starts the program without the variables of a shell.
    for name in ["PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"] {
        if let Some(value) = variable(name) {
            environment.insert(name.to_owned(), json!(value));
        }
    }
    let server = json!({
        "type": "stdio",
        "command": program.to_string_lossy(),
        "args": ["mcp"],
        "env": environment,
    });
    match client {
        Client::ClaudeDesktop | Client::Cursor => {
            format!("{:#}", json!({"mcpServers": {NAME: server}}))
        }
        Client::Vscode => format!("{:#}", json!({"servers": {NAME: server}})),
        Client::ClaudeCode => {
            format!("claude mcp add-json {NAME} {}", quoted(&server.to_string()))
        }
    }
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn secrets_are_no_arguments() {
        let options = Person {
            database: "host=db password=secret".to_owned(),
            user: None,
            token: Some("mat_1".to_owned()),
        };
        for client in [Client::ClaudeDesktop, Client::Cursor, Client::Vscode] {
            let text = config(client, Path::new("/bin/memory-agent"), &options, |name| {
                (name == "PGPORT").then(|| "6543".to_owned())
            });
            let config: Value = serde_json::from_str(&text).unwrap();
            let servers = config.get("mcpServers").or(config.get("servers")).unwrap();
            assert_eq!(servers[NAME]["args"], json!(["mcp"]));
            assert_eq!(servers[NAME]["env"]["MEMORY_AGENT_TOKEN"], "mat_1");
            assert_eq!(servers[NAME]["env"]["MEMORY_AGENT_DATABASE"], "host=db password=secret");
            assert_eq!(servers[NAME]["env"]["PGPORT"], "6543");
        }
    }
}
