//! The options of `serve`, and which of them go together.

use crate::args::one_user;
use crate::cross_origin::one_origin;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  memory-agent serve --user ann                          for one person on this machine
  memory-agent serve --listen 0.0.0.0:8765               for callers with tokens of memory_create_token
  memory-agent serve --user ann --upstream http://127.0.0.1:11434/v1
                                                         with a model of this machine

Point a client of OpenAI at http://127.0.0.1:8765/v1. The page is at http://127.0.0.1:8765/ui.")]
pub struct Serve {
    /// Where to listen; without tokens on this machine only.
    #[arg(
        long,
        help_heading = "Addresses",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8765",
        env = "MEMORY_AGENT_LISTEN"
    )]
    pub listen: SocketAddr,

    /// The database, as a URL or as in psql: "host=/run/postgresql dbname=app user=gateway". What it leaves out,
    /// PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD say.
    #[arg(
        long,
        help_heading = "Addresses",
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
        help_heading = "Addresses",
        value_name = "URL",
        default_value = "https://api.openai.com/v1",
        env = "MEMORY_AGENT_UPSTREAM"
    )]
    pub upstream: String,

    /// A file with the key for the upstream. Without, the Authorization of each caller goes there.
    #[arg(
        long,
        help_heading = "Addresses",
        value_name = "FILE",
        env = "MEMORY_AGENT_UPSTREAM_KEY_FILE"
    )]
    pub upstream_key_file: Option<PathBuf>,

    /// The service that answers /v1/messages.
    #[arg(
        long,
        help_heading = "Addresses",
        value_name = "URL",
        default_value = "https://api.anthropic.com/v1",
        env = "MEMORY_AGENT_MESSAGES_UPSTREAM"
    )]
    pub messages_upstream: String,

    /// A file with the key for that one. Without, the x-api-key or Authorization of each caller goes there.
    #[arg(
        long,
        help_heading = "Addresses",
        value_name = "FILE",
        env = "MEMORY_AGENT_MESSAGES_UPSTREAM_KEY_FILE"
    )]
    pub messages_upstream_key_file: Option<PathBuf>,

    /// The one person who uses this, on this machine. Without, every caller needs a token of
    /// memory_create_token.
    #[arg(long, help_heading = "People", value_name = "USER_ID", env = "MEMORY_AGENT_USER")]
    pub user: Option<String>,

    /// The database once more, as a role of level admin: for what only administrators see.
    #[arg(
        long,
        help_heading = "People",
        value_name = "CONNECTION",
        env = "MEMORY_AGENT_ADMIN_DATABASE",
        hide_env_values = true,
        requires = "admins"
    )]
    pub admin_database: Option<String>,

    /// A user whose tokens are an administrator's; once for each.
    #[arg(long = "admin", help_heading = "People", value_name = "USER_ID", requires = "admin_database", value_parser = one_user)]
    pub admins: Vec<String>,

    /// A file with the secret that JWTs are signed with (HS256): they count as tokens then.
    #[arg(long, help_heading = "People", value_name = "FILE", conflicts_with_all = ["jwt_keys_file", "user"])]
    pub jwt_secret_file: Option<PathBuf>,

    /// A file with the public keys (JWKS) of who signs JWTs (RS256, ES256, EdDSA): they count as tokens then.
    #[arg(long, help_heading = "People", value_name = "FILE", conflicts_with = "user")]
    pub jwt_keys_file: Option<PathBuf>,

    /// The claim of a JWT that names the user.
    #[arg(long, help_heading = "People", value_name = "NAME", default_value = "sub")]
    pub jwt_claim: String,

    /// What the claim aud of a JWT must name; without it, a JWT that has one is for another service.
    #[arg(long, help_heading = "People", value_name = "NAME")]
    pub jwt_audience: Option<String>,

    /// A reverse proxy, which names its client in X-Forwarded-For: wrong tokens are counted by that.
    #[arg(long = "proxy", help_heading = "People", value_name = "IP")]
    pub proxies: Vec<IpAddr>,

    /// Most tokens of the language model a day (UTC) for each token or user of a JWT, with the gateway's key;
    /// 0 for any number.
    #[arg(long, help_heading = "Limits", value_name = "NUMBER", default_value_t = 0)]
    pub daily_tokens: u32,

    /// Longest wait of a chat for memory, each time it asks, in milliseconds.
    #[arg(long, help_heading = "Memory", value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub patience: u64,

    /// Fail a chat when memory fails, instead of answering without.
    #[arg(long, help_heading = "Memory")]
    pub require_memory: bool,

    /// Take the session of a request without memory_id from the header in which Claude Code, Codex or Open WebUI
    /// names the conversation.
    #[arg(long, help_heading = "Memory")]
    pub client_sessions: bool,

    /// An origin whose web pages may ask; once for each.
    #[arg(long = "allow-origin", help_heading = "Addresses", value_name = "ORIGIN", value_parser = one_origin)]
    pub allow_origins: Vec<String>,

    /// Connections to the database.
    #[arg(long, help_heading = "Limits", value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub connections: u16,

    /// Longest silence of the upstream, in seconds.
    #[arg(long, help_heading = "Limits", value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub upstream_timeout: u64,

    /// How long a client may take to send a request, be silent between two, or leave an answer unread, in
    /// seconds.
    #[arg(long, help_heading = "Limits", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub client_timeout: u64,

    /// Most bytes of a request.
    #[arg(long, help_heading = "Limits", value_name = "BYTES", default_value_t = 33_554_432)]
    pub max_body: usize,

    /// Most bytes of all requests together that are being answered; at least --max-body.
    #[arg(long, help_heading = "Limits", value_name = "BYTES", default_value_t = 268_435_456)]
    pub max_bodies: usize,

    /// Most bytes of all answers together that are kept to be stored; what does not fit goes through and is
    /// not stored.
    #[arg(long, help_heading = "Limits", value_name = "BYTES", default_value_t = 268_435_456)]
    pub max_answers: usize,

    /// Most requests at once.
    #[arg(long, help_heading = "Limits", value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_in_flight: u32,

    /// Most requests a minute of each token; 0 for any number.
    #[arg(long, help_heading = "Limits", value_name = "NUMBER", default_value_t = 0)]
    pub rate: u32,

    /// How long answers may go on after a signal to stop, in seconds.
    #[arg(long, help_heading = "Limits", value_name = "SECONDS", default_value_t = 60)]
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
