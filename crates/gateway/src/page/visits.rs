//! Who looks at the page: a cookie names a visit, and a visit the token that the visitor signed in with. The
//! token itself stays here, so that the browser holds nothing that is of use elsewhere, and it is looked
//! up anew with each request, so that one that was revoked ends its visits at once. Visits end with the
//! process.

use crate::people::fair_table::{FairTable, Hash};
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The cookie, where nothing says that the connection is encrypted. Browsers send it to every port of a
/// host, so it is for the page's own paths alone.
const PLAIN: &str = "memory_agent";
/// The cookie behind TLS. Its prefix has browsers refuse it from other hosts and without `Secure`.
const SECURE: &str = "__Host-memory_agent";
/// A visit ends after so long without a request.
const IDLE: Duration = Duration::from_secs(12 * 3_600);
/// Visits that are remembered at most; of who has the most, the one that was idle longest makes room.
const MANY: usize = 10_000;

/// The visits of this process.
pub struct Visits {
    random: SystemRandom,
    key: hmac::Key,
    known: Mutex<FairTable<Known>>,
}

struct Known {
    token: HeaderValue,
    used: Instant,
}

/// A cookie that came with a request, or goes with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie(String);

impl Visits {
    /// # Errors
    /// That the system has no random numbers.
    pub fn new() -> Result<Self, String> {
        let random = SystemRandom::new();
        let mut secret = [0; 32];
        random.fill(&mut secret).map_err(|_| "there are no random numbers".to_owned())?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        Ok(Self { random, key, known: Mutex::new(FairTable::new(MANY)) })
    }

    /// A cookie that no visitor has; `None` without random numbers.
    pub fn new_cookie(&self) -> Option<Cookie> {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes).ok()?;
        Some(Cookie(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// What every form of a visit carries. Another site can have a browser send the cookie, but cannot
    /// read this.
    pub fn form_token(&self, cookie: &Cookie) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, cookie.0.as_bytes()))
    }

    /// Whether a form was made for this visit.
    pub fn is_form_token(&self, cookie: &Cookie, token: &str) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        hmac::verify(&self.key, cookie.0.as_bytes(), &tag).is_ok()
    }

    /// Begins a visit with the token of a caller.
    pub fn begin(&self, cookie: &Cookie, caller: Hash, token: HeaderValue, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_full() {
            known.retain(|visit| now.saturating_duration_since(visit.used) < IDLE);
        }
        known.insert(caller, cookie.hash(), Known { token, used: now });
    }

    /// The token of a visit.
    pub fn token(&self, cookie: &Cookie, now: Instant) -> Option<HeaderValue> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let visit = known.get(&cookie.hash())?;
        if now.saturating_duration_since(visit.used) >= IDLE {
            known.remove(&cookie.hash());
            return None;
        }
        visit.used = now;
        Some(visit.token.clone())
    }

    /// Ends a visit.
    pub fn end(&self, cookie: &Cookie) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&cookie.hash());
    }
}

impl Cookie {
    /// The page's cookie among those of a request.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let named = |name: &str| {
            let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs =
                cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(found, _)| found.trim() == name)?.1.trim();
            (value.len() == 43).then(|| Self(value.to_owned()))
        };
        // A neighbouring host can set the plain one; behind TLS it does not count.
        named(SECURE).or_else(|| if is_secure(headers) { None } else { named(PLAIN) })
    }

    /// The header that hands it to the browser, for as long as that runs.
    pub fn set(&self, is_secure: bool) -> String {
        let Self(value) = self;
        if is_secure {
            format!("{SECURE}={value}; Path=/; HttpOnly; SameSite=Strict; Secure")
        } else {
            format!("{PLAIN}={value}; Path=/ui; HttpOnly; SameSite=Strict")
        }
    }

    fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

/// The headers that have the browser forget the cookie.
pub fn forgotten() -> [String; 2] {
    [
        format!("{SECURE}=; Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=0"),
        format!("{PLAIN}=; Path=/ui; HttpOnly; SameSite=Strict; Max-Age=0"),
    ]
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Whether the browser's connection is encrypted: a proxy says so, or the browser itself does in the
/// address of the page that a form was on.
pub fn is_secure(headers: &HeaderMap) -> bool {
    let by_proxy = text(headers, "x-forwarded-proto").and_then(|value| value.split(',').next());
    by_proxy.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
        || text(headers, ORIGIN.as_str()).is_some_and(|origin| origin.starts_with("https://"))
}

/// Whether a form was sent from the page itself. Browsers say so in a header that no page can set; those
/// that do not, for they do only where the connection is safe, name the origin.
pub fn is_from_here(headers: &HeaderMap) -> bool {
    if let Some(site) = text(headers, "sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(headers, ORIGIN.as_str()) else { return true };
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some() && host == text(headers, HOST.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_form_belongs_to_one_visit() {
        let visits = Visits::new().unwrap();
        let (mine, yours) = (visits.new_cookie().unwrap(), visits.new_cookie().unwrap());
        let token = visits.form_token(&mine);
        assert!(visits.is_form_token(&mine, &token));
        assert!(!visits.is_form_token(&yours, &token));
        for wrong in ["", "!", &token[1..], &format!("{token}AA")] {
            assert!(!visits.is_form_token(&mine, wrong), "{wrong}");
        }
        assert!(!Visits::new().unwrap().is_form_token(&mine, &token), "another process");
    }

    #[test]
    fn a_visit_ends_when_it_is_idle_or_told_to() {
        let visits = Visits::new().unwrap();
        let cookie = visits.new_cookie().unwrap();
        let start = Instant::now();
        visits.begin(&cookie, [1; 32], HeaderValue::from_static("t"), start);
        let later = start + IDLE - Duration::from_secs(1);
        assert!(visits.token(&cookie, later).is_some());
        assert!(visits.token(&cookie, later + IDLE - Duration::from_secs(1)).is_some());
        assert!(visits.token(&cookie, later + IDLE * 3).is_none());
        visits.begin(&cookie, [1; 32], HeaderValue::from_static("t"), start);
        visits.end(&cookie);
        assert!(visits.token(&cookie, start).is_none());
    }

    #[test]
    fn many_visits_of_one_token_sign_nobody_else_out() {
        let visits = Visits::new().unwrap();
        let start = Instant::now();
        let begin = |caller: u8, seconds: u64| {
            let cookie = visits.new_cookie().unwrap();
            let at = start + Duration::from_secs(seconds);
            visits.begin(&cookie, [caller; 32], HeaderValue::from_static("t"), at);
            cookie
        };
        let (anns, bobs_first) = (begin(1, 0), begin(2, 1));
        let bobs: Vec<Cookie> = (0..MANY).map(|_| begin(2, 2)).collect();
        let later = start + Duration::from_secs(3);
        let is_there = |cookie: &Cookie| visits.token(cookie, later).is_some();
        assert!(is_there(&anns), "ann is signed in still");
        assert!(is_there(&bobs[MANY - 1]) && !is_there(&bobs_first), "there is a bound");
        // Those that are over make room first.
        let tomorrow = IDLE.as_secs() + 2;
        let bobs = begin(2, tomorrow);
        let later = start + Duration::from_secs(tomorrow);
        assert!(visits.token(&bobs, later).is_some() && !visits.known.lock().unwrap().is_full());
    }

    #[test]
    fn cookies() {
        let visits = Visits::new().unwrap();
        let (plain, secure) = (visits.new_cookie().unwrap(), visits.new_cookie().unwrap());
        let both = format!("a=b; memory_agent={}; __Host-memory_agent={}", plain.0, secure.0);
        assert_eq!(Cookie::read(&headers(&[("cookie", &both)])), Some(secure.clone()));
        let one = format!("memory_agent={}", plain.0);
        assert_eq!(Cookie::read(&headers(&[("cookie", &one)])), Some(plain));
        let tls = headers(&[("cookie", &one), ("x-forwarded-proto", "https, http")]);
        assert_eq!(Cookie::read(&tls), None);
        assert_eq!(Cookie::read(&headers(&[("cookie", "memory_agent=short")])), None);
        assert!(secure.set(true).starts_with("__Host-"));
        assert!(secure.set(true).ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"));
    }

    #[test]
    fn a_form_of_another_site_is_known() {
        let check = |pairs: &[(&'static str, &str)]| {
            is_from_here(&headers(&[&[("host", "127.0.0.1:8765")], pairs].concat()))
        };
        assert!(check(&[]));
        assert!(check(&[("origin", "http://127.0.0.1:8765")]));
        assert!(check(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        for origin in ["null", "http://127.0.0.1:3000", "http://localhost:8765", "https://x.org"] {
            assert!(!check(&[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "none"] {
            let pairs = [("origin", "http://127.0.0.1:8765"), ("sec-fetch-site", site)];
            assert!(!check(&pairs), "{site}");
        }
    }
}
