//! The command line: what may be said there and in the environment, and what of it goes together.

use crate::cross_origin::one_origin;
use clap::{Args, Parser, Subcommand, ValueEnum};
use memory_agent_core::text::ids;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use uuid::Uuid;

/// Long-term memory of PostgreSQL for clients that speak HTTP.
#[derive(Debug, Parser)]
#[command(name = "memory-agent", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer OpenAI's and Anthropic's clients, with memory.
    Serve(Box<Serve>),
    /// Give a program that speaks MCP the tools of memory, on standard input and output.
    Mcp(Mcp),
    /// Talk with a language model that remembers, in the terminal.
    Chat(Chat),
    /// Say how the memory of a database is, and what to do about it.
    Doctor(Doctor),
    /// Store a fact, and print its id.
    Add(Add),
    /// Print the memories that answer a question, best first: id, score, time and text, separated by tabs.
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
fn one_user(user: &str) -> Result<String, String> {
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

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen; without tokens on this machine only.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8765",
        env = "MEMORY_AGENT_LISTEN"
    )]
    pub listen: SocketAddr,

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

    /// The service that answers.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://api.openai.com/v1",
        env = "MEMORY_AGENT_UPSTREAM"
    )]
    pub upstream: String,

    /// A file with the key for the upstream. Without, the Authorization of each caller goes there.
    #[arg(long, value_name = "FILE", env = "MEMORY_AGENT_UPSTREAM_KEY_FILE")]
    pub upstream_key_file: Option<PathBuf>,

    /// The service that answers /v1/messages.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://api.anthropic.com/v1",
        env = "MEMORY_AGENT_MESSAGES_UPSTREAM"
    )]
    pub messages_upstream: String,

    /// A file with the key for that one. Without, the x-api-key or Authorization of each caller goes there.
    #[arg(long, value_name = "FILE", env = "MEMORY_AGENT_MESSAGES_UPSTREAM_KEY_FILE")]
    pub messages_upstream_key_file: Option<PathBuf>,

    /// The one person who uses this, on this machine. Without, every caller needs a token of
    /// memory_create_token.
    #[arg(long, value_name = "USER_ID", env = "MEMORY_AGENT_USER")]
    pub user: Option<String>,

    /// The database once more, as a role of level admin: for what only administrators see.
    #[arg(
        long,
        value_name = "CONNECTION",
        env = "MEMORY_AGENT_ADMIN_DATABASE",
        hide_env_values = true,
        requires = "admins"
    )]
    pub admin_database: Option<String>,

    /// A user whose tokens are an administrator's; once for each.
    #[arg(long = "admin", value_name = "USER_ID", requires = "admin_database", value_parser = one_user)]
    pub admins: Vec<String>,

    /// A file with the secret that JWTs are signed with (HS256): they count as tokens then.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jwt_keys_file", "user"])]
    pub jwt_secret_file: Option<PathBuf>,

    /// A file with the public keys (JWKS) of who signs JWTs (RS256, ES256, EdDSA): they count as tokens then.
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub jwt_keys_file: Option<PathBuf>,

    /// The claim of a JWT that names the user.
    #[arg(long, value_name = "NAME", default_value = "sub")]
    pub jwt_claim: String,

    /// What the claim aud of a JWT must name; without it, a JWT that has one is for another service.
    #[arg(long, value_name = "NAME")]
    pub jwt_audience: Option<String>,

    /// A reverse proxy, which names its client in X-Forwarded-For: wrong tokens are counted by that.
    #[arg(long = "proxy", value_name = "IP")]
    pub proxies: Vec<IpAddr>,

    /// Most tokens of the language model a day (UTC) for each token or user of a JWT, with the gateway's key;
    /// 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub daily_tokens: u32,

    /// Longest wait of a chat for memory, each time it asks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub patience: u64,

    /// Fail a chat when memory fails, instead of answering without.
    #[arg(long)]
    pub require_memory: bool,

    /// Take the session of a request without memory_id from the header in which Claude Code, Codex or Open WebUI
    /// names the conversation.
    #[arg(long)]
    pub client_sessions: bool,

    /// An origin whose web pages may ask; once for each.
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = one_origin)]
    pub allow_origins: Vec<String>,

    /// Connections to the database.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub connections: u16,

    /// Longest silence of the upstream, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub upstream_timeout: u64,

    /// How long a client may take to send a request, be silent between two, or leave an answer unread, in
    /// seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub client_timeout: u64,

    /// Most bytes of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 33_554_432)]
    pub max_body: usize,

    /// Most bytes of all requests together that are being answered; at least --max-body.
    #[arg(long, value_name = "BYTES", default_value_t = 268_435_456)]
    pub max_bodies: usize,

    /// Most bytes of all answers together that are kept to be stored; what does not fit goes through and is
    /// not stored.
    #[arg(long, value_name = "BYTES", default_value_t = 268_435_456)]
    pub max_answers: usize,

    /// Most requests at once.
    #[arg(long, value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_in_flight: u32,

    /// Most requests a minute of each token; 0 for any number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub rate: u32,

    /// How long answers may go on after a signal to stop, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub stop_timeout: u64,
}

impl Serve {
    /// Whether the options go together.
    ///
    /// # Errors
    /// What does not, and what to do.
    pub fn check(&self) -> Result<(), String> {
        match &self.user {
            Some(user) if one_user(user).is_err() => {
                Err("--user needs the id of one user".to_owned())
            }
            Some(_) if !self.listen.ip().is_loopback() => Err(format!(
                "--user is for one person on this machine, and {} is reached from elsewhere: listen on \
                 127.0.0.1, or leave --user out and make tokens with memory_create_token",
                self.listen
            )),
            _ if self.max_bodies < self.max_body => {
                Err("--max-bodies is less than --max-body".to_owned())
            }
            _ if self.daily_tokens > 0
                && self.upstream_key_file.is_none()
                && self.messages_upstream_key_file.is_none() =>
            {
                Err("--daily-tokens limits what is spent of the gateway's key: name it with \
                     --upstream-key-file or --messages-upstream-key-file"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
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
