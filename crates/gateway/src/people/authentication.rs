//! Who comes in, and as which user. A token says whose memory a request is about, or there is one person, and
//! only this machine may ask. Nothing else of a request, no field and no header, names a user, but where the token is a
//! service's that acts for all users.

use crate::chat::extras::header;
use crate::db::memory::{Memory, MemoryError};
use crate::metrics::Metrics;
use crate::page;
use crate::people::jwt::Jwt;
use crate::people::rates::Rates;
use crate::refusal::Refusal;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Uri};
use memory_agent_core::text::ids;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The header of a token, for clients whose `Authorization` is for the upstream.
pub const TOKEN_HEADER: &str = "x-memory-token";
/// The header in which a service names the user that it acts for.
const USER_HEADER: &str = "x-memory-user";
/// Whose the memory is that all users share: no user's id.
const SHARED: &str = "*";
/// Where Anthropic's and mem0's clients send their key.
const KEY_HEADER: &str = "x-api-key";
/// How every token of `memory_create_token` begins.
const TOKEN_PREFIX: &str = "mat_";
/// How long every such token is.
const TOKEN_BYTES: usize = 68;
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
    /// Whether a request may name another user: then it is a service that asks.
    pub names_users: bool,
}

impl Person {
    /// The user that a service names in a header, or else the one in the body, in the place of its own. Who may name
    /// none stays who it is.
    ///
    /// # Errors
    /// That this is no user's id.
    pub fn acting_for(mut self, headers: &HeaderMap, named: Option<&str>) -> Result<Self, Refusal> {
        if !self.names_users {
            return Ok(self);
        }
        let header = header(headers, USER_HEADER).map_err(Refusal::invalid)?;
        let header = header.as_deref().filter(|named| !named.is_empty());
        let Some(named) = header.or(named).filter(|named| !named.is_empty()) else {
            return Ok(self);
        };
        if named == SHARED {
            return Err(Refusal::invalid("the named user is '*', which is no user"));
        }
        ids::check(named)
            .map_err(|error| Refusal::invalid(format!("the id of the named user {error}")))?;
        self.user_id = named.to_owned();
        Ok(self)
    }
}

/// How a caller is known.
pub enum Authenticator {
    /// One person, on this machine only.
    One(Person),
    /// Every caller shows a token.
    Tokens(Box<Tokens>),
}

/// The user of a token, and whether it may name others.
type Known = (String, bool);

/// What is known of tokens.
pub struct Tokens {
    metrics: Arc<Metrics>,
    /// What else counts as a token.
    jwt: Option<Jwt>,
    wrong: Rates<IpAddr>,
    /// Reverse proxies, which name their clients.
    proxies: Vec<IpAddr>,
    known: Mutex<HashMap<[u8; 32], (Known, Instant)>>,
}

impl Authenticator {
    /// For one person. The address that is listened on must be of this machine alone.
    pub fn for_one(user_id: String) -> Self {
        Self::One(Person { user_id, caller: [0; 32], names_users: false })
    }

    /// For every caller who has a token.
    pub fn with_tokens(metrics: Arc<Metrics>, jwt: Option<Jwt>, proxies: Vec<IpAddr>) -> Self {
        let wrong = Rates::new(WRONG_PER_MINUTE);
        let known = Mutex::new(HashMap::new());
        let tokens = Tokens { metrics, jwt, wrong, proxies, known };
        Self::Tokens(Box::new(tokens))
    }

    /// Whether it is for one person, who needs no token.
    pub fn is_for_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Whether a request shows something that may be a token.
    pub fn has_token(headers: &HeaderMap) -> bool {
        [TOKEN_HEADER, KEY_HEADER, AUTHORIZATION.as_str()]
            .iter()
            .any(|name| headers.contains_key(*name))
    }

    /// Who sends a request. `has_key` says whether the gateway has a key for what the request is about, or it
    /// goes nowhere: then `Authorization` and `x-api-key` are for the gateway. `memory` is asked
    /// whose token it is.
    ///
    /// # Errors
    /// What the caller is told. A token that cannot be looked up is not let in.
    pub async fn admit(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        peer: IpAddr,
        has_key: bool,
        memory: &Memory,
    ) -> Result<Person, Refusal> {
        match self {
            Self::One(person) => {
                from_this_machine(uri, headers)?;
                Ok(person.clone())
            }
            Self::Tokens(tokens) => tokens.admit(headers, peer, has_key, memory).await,
        }
    }
}

impl Tokens {
    async fn admit(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        has_key: bool,
        memory: &Memory,
    ) -> Result<Person, Refusal> {
        if !has_key && would_send_token(headers) {
            let problem = "a memory token stands in a header that goes upstream: send it in \
                           x-memory-token";
            return Err(Refusal::unknown_caller(problem));
        }
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let bearer = text(AUTHORIZATION.as_str()).and_then(|value| value.split_once(' '));
        // mem0's clients call it a token.
        let bearer = bearer.filter(|(scheme, _)| {
            ["bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        });
        let key = bearer.map(|(_, token)| token).or(text(KEY_HEADER)).filter(|_| has_key);
        let token = text(TOKEN_HEADER).or(key).map(str::trim);
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
            return Ok(Person { user_id, caller, names_users: false });
        }
        let caller: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let remembered = self.remembered(&caller, now);
        let asks = asking(peer, headers, &self.proxies);
        // Taken before the look, so that many guesses at once are not looked up; given back after one that
        // was right.
        if remembered.is_none() {
            self.wrong.take(asks, now).map_err(|wait| Refusal::too_many(wait.as_secs() as u32))?;
        }
        let found =
            if token.len() > MAX_TOKEN_BYTES { Ok(None) } else { memory.token(&caller).await };
        match found {
            Ok(Some((user_id, names_users))) => {
                if remembered.is_none() {
                    self.wrong.give_back(&asks);
                }
                self.remember(caller, (user_id.clone(), names_users), now);
                Ok(Person { user_id, caller, names_users })
            }
            Ok(None) => {
                self.forget(&caller);
                Err(Refusal::unknown_caller("this memory token is unknown, or has expired"))
            }
            Err(error) => {
                if remembered.is_none() {
                    self.wrong.give_back(&asks);
                }
                self.metrics.memory_failures.add("token", 1);
                match remembered.filter(|_| !matches!(error, MemoryError::ModeOfRoles)) {
                    Some((user_id, names_users)) => Ok(Person { user_id, caller, names_users }),
                    None => Err(Refusal::no_memory(format!(
                        "the memory token cannot be looked up: {error}"
                    ))),
                }
            }
        }
    }

    fn remembered(&self, caller: &[u8; 32], now: Instant) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (token, at) = known.get(caller)?;
        (now.saturating_duration_since(*at) < REMEMBERED).then(|| token.clone())
    }

    fn remember(&self, caller: [u8; 32], token: Known, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MANY {
            known.retain(|_, (_, at)| now.saturating_duration_since(*at) < REMEMBERED);
        }
        if known.len() < MANY {
            known.insert(caller, (token, now));
        }
    }

    fn forget(&self, caller: &[u8; 32]) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(caller);
    }
}

/// Whether a header that goes upstream has a memory token in it.
fn would_send_token(headers: &HeaderMap) -> bool {
    headers.iter().filter(|(name, _)| *name != TOKEN_HEADER).any(|(name, value)| {
        let value = value.as_bytes();
        let has_word = || {
            let mut words = value.split(u8::is_ascii_whitespace);
            words.any(|word| word.starts_with(TOKEN_PREFIX.as_bytes()))
        };
        ((*name == AUTHORIZATION || *name == KEY_HEADER) && has_word()) || holds_token(value)
    })
}

/// Whether there is a token of `memory_create_token` somewhere in a header's value.
pub fn holds_token(value: &[u8]) -> bool {
    value.windows(TOKEN_BYTES).any(|part| {
        let digits = part.strip_prefix(TOKEN_PREFIX.as_bytes());
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Who asks, as far as wrong tokens are counted by it: the peer, or the client that a proxy names. Of an
/// IPv6 address the half that names a network: a client chooses the other half as it likes.
fn asking(peer: IpAddr, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let mut asks = peer.to_canonical();
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .collect();
    // Each proxy appends who asked it, so only what a proxy of ours wrote counts.
    for named in forwarded.into_iter().rev() {
        if !proxies.contains(&asks) {
            break;
        }
        match address(named.trim()) {
            Some(address) => asks = address.to_canonical(),
            None => break,
        }
    }
    match asks {
        IpAddr::V4(_) => asks,
        IpAddr::V6(whole) => {
            let network = u128::from(whole) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}

/// An address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

/// Refuses what a page has a browser send, but for the page of this gateway: by a name of its own for this
/// machine's address, which `Host` gives away, or across origins, which the browser says in headers that no page
/// can set. Outside of the page, an answer is for programs: a browser must not show it on the page's origin.
fn from_this_machine(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str()).or(uri.authority().map(|authority| authority.as_str()));
    let Some(host) = host.filter(|host| is_this_machine(host)) else {
        return Err(Refusal::forbidden("Host does not name this machine"));
    };
    let site = text("sec-fetch-site").unwrap_or("none");
    let is_shown = text("sec-fetch-mode") == Some("navigate");
    let is_foreign = !matches!(site, "same-origin" | "none");
    if !uri.path().starts_with(page::ROOT) && (is_shown || is_foreign) {
        return Err(Refusal::forbidden("this path is for programs; in a browser, open /ui"));
    }
    let Some(origin) = text(ORIGIN.as_str()) else { return Ok(()) };
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if named.is_some_and(|named| named.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Refusal::forbidden("Origin is not the gateway's own"))
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
        assert!(check("127.0.0.1:8765", Some("http://127.0.0.1:8765")));
        assert!(!check("127.0.0.1:8765", Some("http://localhost:8765")));
        assert!(!check("localhost:8765", Some("http://localhost:3000")));
        assert!(!check("evil.example", None));
        assert!(!check("localhost:8765", Some("https://evil.example")));
        assert!(!check("localhost:8765", Some("null")));
    }

    #[test]
    fn a_memory_token_is_found_in_whatever_goes_upstream() {
        let token = format!("mat_{}", "0a".repeat(32));
        let finds = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().unwrap());
            }
            would_send_token(&headers)
        };
        for found in [
            &[("authorization", &*token)][..],
            &[("authorization", "Bearer sk-1"), ("authorization", &format!("Bearer  {token}"))],
            &[("authorization", "Bearer mat_1")],
            &[("api-key", &token)],
            &[("cookie", &format!("session={token}; a=b"))],
        ] {
            assert!(finds(found), "{found:?}");
        }
        for other in [
            &[("authorization", "Bearer sk-1"), ("x-memory-token", &*token)][..],
            &[("x-response-format_a", "format_0000")],
        ] {
            assert!(!finds(other), "{other:?}");
        }
    }

    #[test]
    fn who_asks_is_what_our_own_proxies_say() {
        let asks = |peer: &str, forwarded: &[&str], proxies: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            let proxies: Vec<IpAddr> = proxies.iter().map(|one| one.parse().unwrap()).collect();
            asking(peer.parse().unwrap(), &headers, &proxies).to_string()
        };
        assert_eq!(asks("10.0.0.1", &["192.0.2.1"], &[]), "10.0.0.1");
        assert_eq!(asks("::ffff:10.0.0.1", &[], &[]), "10.0.0.1");
        let ours = ["10.0.0.1", "10.0.0.2"];
        assert_eq!(asks("10.0.0.1", &["198.51.100.7, 192.0.2.1"], &ours), "192.0.2.1");
        assert_eq!(asks("10.0.0.1", &["6.6.6.6, 192.0.2.1:4711", "10.0.0.2"], &ours), "192.0.2.1");
        assert_eq!(asks("10.0.0.1", &["192.0.2.1, unknown"], &ours), "10.0.0.1");
        assert_eq!(asks("192.0.2.9", &["192.0.2.1"], &ours), "192.0.2.9");
        // A network is one caller.
        let first = asks("10.0.0.1", &["2001:db8::1:2:3:4"], &ours);
        assert_eq!(asks("10.0.0.1", &["[2001:db8::ffff:0:0:1]:80"], &ours), first);
        assert_ne!(asks("10.0.0.1", &["2001:db8:0:1::1"], &ours), first);
    }
}
