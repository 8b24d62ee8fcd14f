//! Who comes in, and as whom. A token says whose memory a request is about, or there is one person, and
//! only this machine may ask. Nothing else of a request, no field and no header, names a user.

use crate::jwt::Jwt;
use crate::memory::{Memory, MemoryError};
use crate::metrics::Metrics;
use crate::rates::Rates;
use crate::refusal::Refusal;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The header of a token, for clients whose `Authorization` is for the upstream.
pub const TOKEN_HEADER: &str = "x-memory-token";
/// How every token of `memory_create_token` begins.
const TOKEN_PREFIX: &str = "mat_";
/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 4_096;
/// Wrong tokens a minute from one address; more are not looked up.
const WRONG_PER_MINUTE: u32 = 30;
/// While the database cannot be asked, a token counts that it knew so long ago.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Tokens that are remembered at most.
const MANY: usize = 10_000;

/// Whose memory a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub user_id: String,
    /// What the rate of requests is counted by: a hash of the token, or of the user a JWT names.
    pub caller: [u8; 32],
}

/// How a caller is known.
pub enum Door {
    /// One person, on this machine only.
    One(Person),
    /// Everybody shows a token.
    Tokens(Box<Tokens>),
}

/// What is known of tokens.
pub struct Tokens {
    memory: Memory,
    metrics: Arc<Metrics>,
    /// What else counts as a token.
    jwt: Option<Jwt>,
    /// Whether `Authorization` is for the gateway: it is, when the gateway has a key for the upstream.
    in_authorization: bool,
    wrong: Rates<IpAddr>,
    known: Mutex<HashMap<[u8; 32], (String, Instant)>>,
}

impl Door {
    /// For one person. The address that is listened on must be of this machine alone.
    pub fn for_one(user_id: String) -> Self {
        Self::One(Person { user_id, caller: [0; 32] })
    }

    /// For everybody who has a token.
    pub fn with_tokens(
        memory: Memory,
        metrics: Arc<Metrics>,
        jwt: Option<Jwt>,
        in_authorization: bool,
    ) -> Self {
        let wrong = Rates::new(WRONG_PER_MINUTE);
        let known = Mutex::new(HashMap::new());
        Self::Tokens(Box::new(Tokens { memory, metrics, jwt, in_authorization, wrong, known }))
    }

    /// Who sends a request.
    ///
    /// # Errors
    /// What the caller is told. A token that cannot be looked up is not let in.
    pub async fn admit(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Person, Refusal> {
        match self {
            Self::One(person) => {
                from_this_machine(uri, headers)?;
                Ok(person.clone())
            }
            Self::Tokens(tokens) => tokens.admit(headers, peer).await,
        }
    }
}

impl Tokens {
    async fn admit(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Person, Refusal> {
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let bearer = bearer.map(|(_, token)| token.trim());
        if !self.in_authorization && bearer.is_some_and(|token| token.starts_with(TOKEN_PREFIX)) {
            let problem = "a memory token stands in Authorization, which goes upstream: send it in \
                           x-memory-token";
            return Err(Refusal::unknown_caller(problem));
        }
        let own = headers.get(TOKEN_HEADER).and_then(|value| value.to_str().ok()).map(str::trim);
        let token = own.or(bearer.filter(|_| self.in_authorization));
        let Some(token) = token.filter(|token| !token.is_empty()) else {
            let problem =
                "a memory token is needed; an administrator makes one with memory_create_token";
            return Err(Refusal::unknown_caller(problem));
        };
        let now = Instant::now();
        let jwt = self.jwt.as_ref().filter(|_| !token.starts_with(TOKEN_PREFIX));
        if let Some(user_id) = jwt.and_then(|jwt| jwt.user(token, SystemTime::now())) {
            // A user's tokens follow one another, so it is the user who has a rate.
            let caller = Sha256::digest(format!("user {user_id}")).into();
            return Ok(Person { user_id, caller });
        }
        let caller: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let remembered = self.remembered(&caller, now);
        if remembered.is_none() {
            self.wrong.look(peer, now).map_err(|wait| Refusal::too_many(wait.as_secs() as u32))?;
        }
        let found = if token.len() > MAX_TOKEN_BYTES {
            Ok(None)
        } else {
            self.memory.token_user(&caller).await
        };
        match found {
            Ok(Some(user_id)) => {
                self.remember(caller, &user_id, now);
                Ok(Person { user_id, caller })
            }
            Ok(None) => {
                self.forget(&caller);
                // The wait is told to who comes next.
                let _ = self.wrong.take(peer, now);
                Err(Refusal::unknown_caller("this memory token is unknown, or has expired"))
            }
            Err(error) => {
                self.metrics.memory_failures.add("token", 1);
                match remembered.filter(|_| !matches!(error, MemoryError::ModeOfRoles)) {
                    Some(user_id) => Ok(Person { user_id, caller }),
                    None => Err(Refusal::no_memory(format!(
                        "the memory token cannot be looked up: {error}"
                    ))),
                }
            }
        }
    }

    fn remembered(&self, caller: &[u8; 32], now: Instant) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (user_id, at) = known.get(caller)?;
        (now.saturating_duration_since(*at) < REMEMBERED).then(|| user_id.clone())
    }

    fn remember(&self, caller: [u8; 32], user_id: &str, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.retain(|_, (_, at)| now.saturating_duration_since(*at) < REMEMBERED);
        }
        if known.len() < MANY {
            known.insert(caller, (user_id.to_owned(), now));
        }
    }

    fn forget(&self, caller: &[u8; 32]) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(caller);
    }
}

/// Refuses what a page of another site has a browser send: by a name of its own for this machine's
/// address, which `Host` gives away, or across sites, which `Origin` does.
fn from_this_machine(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST).or(uri.authority().map(|authority| authority.as_str()));
    if !host.is_some_and(is_this_machine) {
        return Err(Refusal::forbidden("Host does not name this machine"));
    }
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if host.is_some_and(is_this_machine) {
        return Ok(());
    }
    Err(Refusal::forbidden("Origin does not name this machine"))
}

/// Whether `host` or `host:port` is a name of this machine that no name server has a say in.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "LOCALHOST:8765", "127.0.0.1:1", "127.0.0.2", "[::1]:80", "[::1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "10.0.0.1",
            "localhost:x",
            "[::2]",
            "user@localhost:1:2",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_kept_out() {
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            from_this_machine(&Uri::from_static("/health"), &headers).is_ok()
        };
        assert!(check("localhost:8765", None));
        assert!(check("127.0.0.1:8765", Some("http://localhost:3000")));
        assert!(!check("evil.example", None));
        assert!(!check("localhost:8765", Some("https://evil.example")));
        assert!(!check("localhost:8765", Some("null")));
    }
}
