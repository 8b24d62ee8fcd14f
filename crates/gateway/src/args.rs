//! The command line: what may be said there and in the environment, and what of it goes together.

use crate::serve_args::Serve;
use clap::{Args, Parser, Subcommand, ValueEnum};
use memory_agent_core::text::ids;
use std::path::PathBuf;
use uuid::Uuid;

/// Long-term memory in PostgreSQL, for programs and people.
#[derive(Debug, Parser)]
#[command(
    name = "memory-agent",
    version,
    after_help = "Examples:
  memory-agent doctor                                  check the database that PGDATABASE names
  memory-agent add --user ann 'Ann is a vegetarian.'   store a fact
  memory-agent recall --user ann 'What can we cook?'   find it
  memory-agent serve --user ann                        add memory to the chats of other programs

Every command takes --database, or PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add memory to the chats of other programs: a proxy for OpenAI's and Anthropic's APIs, MCP, mem0's API, a page.
    Serve(Box<Serve>),
    /// Give an MCP client the tools of memory, on standard input and output.
    Mcp(Mcp),
    /// Talk with a language model that remembers, in the terminal.
    Chat(Chat),
    /// Check the memory of a database, and say what to do.
    Doctor(Doctor),
    /// Store a fact, and print its id.
    Add(Add),
    /// Print the memories that answer a question, best first: id, score, time and text, between tabs.
    Recall(Recall),
    /// Forget memories.
    Forget(Forget),
    /// Write a person's memory to a file that `import` reads.
    Export(Export),
    /// Bring conversations and facts from ChatGPT, Claude, Claude Code, mem0, MCP's memory server, or JSON lines.
    Import(Import),
}

/// Options of `chat`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  memory-agent chat --user ann --upstream http://127.0.0.1:11434/v1")]
pub struct Chat {
    #[command(flatten)]
    pub person: Person,

    /// The conversation; one that is in memory goes on.
    #[arg(long, value_name = "SESSION_ID", default_value = "terminal", value_parser = one_session)]
    pub session: String,

    /// The service that answers.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://api.openai.com/v1",
        env = "MEMORY_AGENT_UPSTREAM"
    )]
    pub upstream: String,

    /// A file with the key for it. Without, OPENAI_API_KEY is the key, if there is one.
    #[arg(long, value_name = "FILE", env = "MEMORY_AGENT_UPSTREAM_KEY_FILE")]
    pub upstream_key_file: Option<PathBuf>,

    /// The model that answers. Without, the one model of the service, if it has only one.
    #[arg(long, value_name = "NAME", env = "MEMORY_AGENT_MODEL")]
    pub model: Option<String>,

    /// Say after each answer what went into the prompt, and why.
    #[arg(long)]
    pub debug: bool,

    /// Where typed lines are kept for the next time; "" for nowhere. Without, a file in the state directory.
    #[arg(long, value_name = "FILE", env = "MEMORY_AGENT_HISTORY")]
    pub history: Option<PathBuf>,

    /// Longest wait for memory, each time it is asked, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub patience: u64,
}

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  memory-agent doctor --database 'host=/run/postgresql dbname=app'

The exit status is 0 if there is nothing to do, 1 if there is, and 2 if the database cannot be asked.")]
pub struct Doctor {
    /// The database, as a URL or as in psql: "host=/run/postgresql dbname=app user=gateway". What it leaves out,
    /// PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD say.
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "",
        hide_default_value = true,
        env = "MEMORY_AGENT_DATABASE",
        hide_env_values = true
    )]
    pub database: String,
}

/// Options of `add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  memory-agent add --user ann 'Ann is a vegetarian.'
  cat note.txt | memory-agent add --user ann -")]
pub struct Add {
    #[command(flatten)]
    pub person: Person,

    /// The session that the fact belongs to. Without, it holds everywhere.
    #[arg(long, value_name = "SESSION_ID", value_parser = one_session)]
    pub session: Option<String>,

    /// The fact, or - for standard input.
    pub text: String,
}

/// Options of `recall`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  memory-agent recall --user ann 'What can we cook?'
  memory-agent recall --user ann --json --top-k 3 'What can we cook?' | jq -r .content")]
pub struct Recall {
    #[command(flatten)]
    pub person: Person,

    /// Most memories. Without, memory_agent.default_top_k.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub top_k: Option<i32>,

    /// One JSON object a line, with kind, role and session too.
    #[arg(long)]
    pub json: bool,

    /// The question.
    pub question: String,
}

/// Options of `forget`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  memory-agent forget --user ann --reason 'she moved' 01985c43-6f0e-7000-8000-3c2f9d1e5a77")]
pub struct Forget {
    #[command(flatten)]
    pub person: Person,

    /// Why, for the history.
    #[arg(long)]
    pub reason: Option<String>,

    /// The ids, as `add` and `recall` print them.
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<Uuid>,
}

/// Options of `export`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  memory-agent export --user ann ann.jsonl")]
pub struct Export {
    #[command(flatten)]
    pub person: Person,

    /// Replace the file if there is one.
    #[arg(long)]
    pub force: bool,

    /// The file to write, or - for standard output.
    pub file: PathBuf,
}

/// Options of `import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  memory-agent import --user ann conversations.json         an export of ChatGPT or Claude
  memory-agent import --user ann --from-user a7 mem0.json   what mem0 knew of its user a7")]
pub struct Import {
    #[command(flatten)]
    pub person: Person,

    /// What the files are, where that cannot be told from their beginning.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// The user of mem0 whose memories to take, from a file with several.
    #[arg(long, value_name = "USER_ID")]
    pub from_user: Option<String>,

    /// Have a language model extract facts from what the user said, which costs its calls.
    #[arg(long)]
    pub extract: bool,

    /// The files to read, ZIP archives or compressed with gzip too; - for standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// A kind of file that `import` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// conversations.json of ChatGPT.
    Chatgpt,
    /// conversations.json of Claude.
    Claude,
    /// The list of memories that mem0's get_all() returns, as JSON.
    Mem0,
    /// One JSON object a line: role, content, session_id, created_at, id. `export` writes them.
    Jsonl,
    /// A session of Claude Code, out of its folder projects.
    ClaudeCode,
    /// memory.jsonl of the official MCP memory server.
    McpMemory,
}

/// Whose memory, and where it is.
#[derive(Debug, Args)]
pub struct Person {
    /// The database, as a URL or as in psql: "host=/run/postgresql dbname=app user=gateway". What it leaves out,
    /// PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD say.
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "",
        hide_default_value = true,
        env = "MEMORY_AGENT_DATABASE",
        hide_env_values = true
    )]
    pub database: String,

    /// Whose memory it is.
    #[arg(
        long,
        value_name = "USER_ID",
        env = "MEMORY_AGENT_USER",
        required_unless_present = "token",
        conflicts_with = "token",
        value_parser = one_user
    )]
    pub user: Option<String>,

    /// A token of memory_create_token, which says whose memory it is.
    #[arg(long, value_name = "TOKEN", env = "MEMORY_AGENT_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

/// Options of `mcp`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  memory-agent mcp --user ann --print-config claude-desktop")]
pub struct Mcp {
    #[command(flatten)]
    pub person: Person,

    /// Print what makes a client start this with these options, and end.
    #[arg(long, value_name = "CLIENT")]
    pub print_config: Option<Client>,
}

/// A program that starts MCP servers.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
}

/// Refuses what is no user's id.
pub fn one_user(user: &str) -> Result<String, String> {
    if user == "*" {
        return Err("it needs the id of one user".to_owned());
    }
    ids::check(user).map_err(|error| format!("the id {error}"))?;
    Ok(user.to_owned())
}

/// Refuses what is no session's id.
fn one_session(session: &str) -> Result<String, String> {
    if session.trim().is_empty() {
        return Err("it needs the id of a session".to_owned());
    }
    Ok(session.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn serve(arguments: &[&str]) -> Serve {
        let given = ["memory-agent", "serve", "--database", "dbname=x"].iter().chain(arguments);
        match Cli::parse_from(given).command {
            Command::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// The words of a line of an example, as a shell splits them; what explains it stands behind two blanks.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let (mut is_quoted, mut characters) = (false, line.trim().chars().peekable());
        while let Some(c) = characters.next() {
            match c {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted && matches!(characters.peek(), Some(' ' | '|')) => break,
                ' ' if !is_quoted => words.push(String::new()),
                c => words.last_mut().expect("a word").push(c),
            }
        }
        words
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        use clap::CommandFactory;
        let whole = Cli::command();
        let commands = whole.get_subcommands().filter(|command| command.get_name() != "help");
        for command in commands.chain([&whole]) {
            let help = command.get_after_help().expect("examples").to_string();
            let examples: Vec<&str> = help
                .lines()
                .filter_map(|line| line.find("memory-agent ").map(|at| &line[at..]))
                .filter(|line| !line.contains("--database,"))
                .collect();
            assert!(!examples.is_empty(), "{}", command.get_name());
            for example in examples {
                let parsed = Cli::try_parse_from(words(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn one_person_is_served_on_this_machine_only() {
        assert_eq!(serve(&["--user", "ann"]).check(), Ok(()));
        assert_eq!(serve(&["--user", "ann", "--listen", "[::1]:1"]).check(), Ok(()));
        assert_eq!(serve(&["--listen", "0.0.0.0:80"]).check(), Ok(()));
        assert!(serve(&["--user", "ann", "--listen", "0.0.0.0:80"]).check().is_err());
        for user in [" ", "*", "ann ", "ann\u{85}"] {
            assert!(serve(&["--user", user]).check().is_err(), "{user:?}");
        }
    }

    #[test]
    fn administrators_have_a_connection_of_their_own() {
        let given = |arguments: &[&str]| {
            let fixed = ["memory-agent", "serve", "--database", "dbname=x"];
            Cli::try_parse_from(fixed.iter().chain(arguments)).is_ok()
        };
        assert!(given(&["--admin", "ops", "--admin", "root", "--admin-database", "dbname=x"]));
        assert!(!given(&["--admin", "ops"]));
        assert!(!given(&["--admin-database", "dbname=x"]));
        assert!(!given(&["--admin", "*", "--admin-database", "dbname=x"]));
    }

    #[test]
    fn what_is_limited_is_the_gateways_own_key() {
        assert!(serve(&["--daily-tokens", "9"]).check().is_err());
        assert_eq!(serve(&["--daily-tokens", "9", "--upstream-key-file", "k"]).check(), Ok(()));
    }
}
