//! The command line: what may be said there and in the environment, and what of it goes together.

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Answer OpenAI's clients, with memory.
    Serve(Serve),
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

    /// The database, as a URL or as in psql: "host=/run/postgresql dbname=app user=gateway".
    #[arg(long, value_name = "CONNECTION", env = "MEMORY_AGENT_DATABASE", hide_env_values = true)]
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

    /// The one person who uses this, on this machine. Without, every caller needs a token of
    /// memory_create_token.
    #[arg(long, value_name = "USER_ID", env = "MEMORY_AGENT_USER")]
    pub user: Option<String>,

    /// A file with the secret that JWTs are signed with (HS256): they count as tokens then.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jwt_keys_file", "user"])]
    pub jwt_secret_file: Option<PathBuf>,

    /// A file with the public keys (JWKS) of who signs JWTs (RS256): they count as tokens then.
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub jwt_keys_file: Option<PathBuf>,

    /// The claim of a JWT that names the user.
    #[arg(long, value_name = "NAME", default_value = "sub")]
    pub jwt_claim: String,

    /// What the claim aud of a JWT must name; without, a JWT that has one is for somebody else.
    #[arg(long, value_name = "NAME")]
    pub jwt_audience: Option<String>,

    /// Longest wait of a chat for memory, each time it asks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub patience: u64,

    /// Fail a chat when memory fails, instead of answering without.
    #[arg(long)]
    pub require_memory: bool,

    /// Connections to the database.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub connections: u16,

    /// Longest silence of the upstream, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub upstream_timeout: u64,

    /// Most bytes of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 33_554_432)]
    pub max_body: usize,

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
            Some(user) if user.trim().is_empty() || user == "*" => {
                Err("--user needs the id of one user".to_owned())
            }
            Some(_) if !self.listen.ip().is_loopback() => Err(format!(
                "--user is for one person on this machine, and {} is reached from elsewhere: listen on \
                 127.0.0.1, or leave --user out and make tokens with memory_create_token",
                self.listen
            )),
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
        let Command::Serve(serve) = Cli::parse_from(given).command;
        serve
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
        assert!(serve(&["--user", " "]).check().is_err());
    }
}
