//! The service that answers: where it is, with which key, and which headers go there. Paths are fixed words,
//! or with the caller's key what `forward.rs` lets through, so that nothing in a request decides which host is
//! asked.

use crate::chat::reply::Reply;
use crate::people::authentication::holds_token;
use crate::people::secret::Secret;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Shorter than what most servers wait before they close an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a look at whether it is there may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Headers of the gateway's own begin like this; none goes further.
const OWN: &str = "x-memory-";
/// What goes along when the key is the gateway's: nothing that could spend it in another name.
const WITH_OUR_KEY: [&str; 9] = [
    "accept",
    "content-type",
    "user-agent",
    "idempotency-key",
    "openai-beta",
    "anthropic-beta",
    "anthropic-version",
    "traceparent",
    "x-request-id",
];
/// What tells a request from others: an upstream may answer it as it answered the one before.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What stays here though the key is the caller's: what is about one connection, or about a body as it was sent
/// on it, and what a browser says of the page that asks. There is no list of what goes: the caller could
/// send the same there, and services invent headers.
const OF_ONE_CONNECTION: [&str; 18] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "content-encoding",
    "content-length",
    "accept-encoding",
    "expect",
    "cookie",
    "origin",
    "range",
    "referer",
];

/// How an upstream wants its key.
#[derive(Clone, Copy, Debug)]
pub enum KeyIn {
    /// `Authorization: Bearer`, as OpenAI does.
    Authorization,
    /// `x-api-key`, as Anthropic does.
    ApiKey,
}

/// Where requests go.
pub struct Upstream {
    client: Client,
    /// Without the slash at the end.
    base: String,
    /// Instead of the caller's, and the header it stands in.
    key: Option<(HeaderName, HeaderValue)>,
    /// The same key, as it is looked for in answers.
    secret: Option<Arc<Secret>>,
    /// Longest silence.
    patience: Duration,
}

impl Upstream {
    /// # Errors
    /// What is wrong with the address or the key, or why TLS cannot be set up. The key is in no message.
    pub fn new(
        base: &str,
        key: Option<&str>,
        key_in: KeyIn,
        patience: Duration,
    ) -> Result<Self, String> {
        let url = Url::parse(base).map_err(|error| format!("the upstream's address: {error}"))?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_whole = url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !matches!(url.scheme(), "http" | "https") || !is_plain || !is_whole {
            return Err("the upstream's address must be like https://api.openai.com/v1".to_owned());
        }
        let secret = key.and_then(|key| Secret::new(key.trim())).map(Arc::new);
        let key = key
            .map(|key| {
                if key.trim().is_empty() {
                    return Err("the upstream's key is empty".to_owned());
                }
                let (name, value) = match key_in {
                    KeyIn::Authorization => {
                        (header::AUTHORIZATION, format!("Bearer {}", key.trim()))
                    }
                    KeyIn::ApiKey => (HeaderName::from_static("x-api-key"), key.trim().to_owned()),
                };
                let mut value = HeaderValue::from_str(&value)
                    .map_err(|_| "the upstream's key is not one line of text".to_owned())?;
                value.set_sensitive(true);
                Ok::<_, String>((name, value))
            })
            .transpose()?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client: client()?, base, key, secret, patience })
    }

    /// Where it is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether requests go there with the gateway's key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a request of a caller and waits for the headers of the answer.
    ///
    /// # Errors
    /// That it cannot be reached, in words that name neither address nor key, or that its answer leads elsewhere.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        caller: &[u8; 32],
        body: Vec<u8>,
    ) -> Result<Reply, String> {
        let request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .headers(self.headers(headers, caller))
            .body(body);
        let answer = match tokio::time::timeout(self.patience, request.send()).await {
            Ok(sent) => sent.map_err(|error| reason(&error))?,
            Err(_) => return Err("no answer in time".to_owned()),
        };
        let status = answer.status();
        // A client would follow it, with the memory token of this gateway.
        if status.is_redirection() {
            return Err("the upstream answers with a redirect, and none is followed: give the \
                        gateway the upstream's final address"
                .to_owned());
        }
        if !(status.is_success() || status.is_client_error() || status.is_server_error()) {
            return Err(format!("the upstream answers with status {}", status.as_u16()));
        }
        // Its words are about a key that is not the caller's, and may quote it.
        if self.has_key() && status == StatusCode::UNAUTHORIZED {
            return Err("the upstream refuses the gateway's key".to_owned());
        }
        let coding = answer.headers().get(header::CONTENT_ENCODING);
        if self.secret.is_some() && coding.is_some_and(|coding| coding != "identity") {
            return Err("the upstream compresses its answer though it was asked not to".to_owned());
        }
        Ok(Reply::new(answer, self.patience, self.secret.clone()))
    }

    /// Whether it answers at all, whatever it says.
    pub async fn is_there(&self) -> bool {
        let mut request = self.client.get(format!("{}/models", self.base)).timeout(LOOK_TIMEOUT);
        if let Some((name, key)) = &self.key {
            request = request.header(name, key.clone());
        }
        request.send().await.is_ok()
    }

    fn headers(&self, headers: &HeaderMap, caller: &[u8; 32]) -> HeaderMap {
        let named = connection_headers(headers);
        let mut kept = HeaderMap::new();
        for (name, value) in headers {
            let word = name.as_str();
            let goes = match self.key {
                Some(_) => WITH_OUR_KEY.contains(&word) || word.starts_with("x-stainless-"),
                None => {
                    let is_ours = OF_ONE_CONNECTION.contains(&word) || is_of_a_proxy(word);
                    !is_ours && !is_of_a_browser(word) && !named.contains(name)
                }
            };
            let has_token = holds_token(word.as_bytes()) || holds_token(value.as_bytes());
            if !goes || has_token || word.starts_with(OWN) {
                continue;
            }
            let value = match self.key {
                Some(_) if word == IDEMPOTENCY_KEY => callers_own(value, caller),
                _ => Some(value.clone()),
            };
            kept.extend(value.map(|value| (name.clone(), value)));
        }
        // Answers are read here.
        kept.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some((name, key)) = &self.key {
            kept.insert(name, key.clone());
        }
        kept
    }
}

/// An idempotency key that no other caller has: they all ask with the gateway's key, by which an upstream would
/// take the same one for the same request.
fn callers_own(key: &HeaderValue, caller: &[u8; 32]) -> Option<HeaderValue> {
    let hash = Sha256::new().chain_update(caller).chain_update(key.as_bytes()).finalize();
    let hash = hash.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    HeaderValue::from_str(&hash).ok().filter(|_| !key.is_empty())
}

/// Whether a header says how a request came here, which is not the upstream's business.
fn is_of_a_proxy(name: &str) -> bool {
    matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
}

/// Whether a header says what a browser knows of the page that asks, or has of an earlier answer.
fn is_of_a_browser(name: &str) -> bool {
    ["sec-", "if-", "access-control-"].iter().any(|prefix| name.starts_with(prefix))
}

/// What `Connection` says is about this connection alone.
fn connection_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect()
}

/// A client that follows no redirect, so that no key reaches another host.
fn client() -> Result<Client, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()
        .map_err(|error| reason(&error))
}

/// Why there is no answer, without the address.
pub fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        "the upstream cannot be reached".to_owned()
    } else {
        "the connection to the upstream broke".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn upstream(key: Option<&str>) -> Upstream {
        let patience = Duration::from_secs(1);
        Upstream::new("http://127.0.0.1:1/v1/", key, KeyIn::Authorization, patience).unwrap()
    }

    #[test]
    fn only_the_callers_own_goes_upstream() {
        let sent = headers(&[
            ("authorization", "Bearer sk-1"),
            ("x-memory-token", "mat_1"),
            ("x-memory-id", "s"),
            ("host", "gateway"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("openai-organization", "org"),
            ("accept-encoding", "gzip"),
            ("content-type", "application/json"),
            ("x-stainless-lang", "python"),
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("origin", "http://localhost:3000"),
            ("sec-fetch-mode", "cors"),
            ("if-none-match", "\"1\""),
        ]);
        let through = upstream(None).headers(&sent, &[0; 32]);
        let mut names: Vec<&str> = through.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = ["accept-encoding", "authorization", "content-type", "openai-organization"];
        assert_eq!(names, [&expected[..], &["x-stainless-lang"]].concat());
        assert_eq!(through["accept-encoding"], "identity");
        assert_eq!(through["authorization"], "Bearer sk-1");
        // With our key a token may stand in Authorization; where else it stands, it goes nowhere.
        let token: &'static str = format!("curl/8 mat_{}", "0a".repeat(32)).leak();
        let mut sent = sent;
        sent.extend(headers(&[("user-agent", token), ("x-stainless-os", token)]));
        let name: &'static str = format!("x-stainless-mat_{}", "0a".repeat(32)).leak();
        sent.extend(headers(&[(name, "1")]));
        let ours = upstream(Some("sk-ours\n")).headers(&sent, &[0; 32]);
        let mut names: Vec<&str> = ours.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "authorization", "content-type", "x-stainless-lang"]);
        assert_eq!(ours["authorization"], "Bearer sk-ours");
    }

    #[test]
    fn a_key_of_a_request_is_one_callers() {
        let of = |upstream: &Upstream, key: &'static str, caller: u8| {
            let kept = upstream.headers(&headers(&[(IDEMPOTENCY_KEY, key)]), &[caller; 32]);
            kept.get(IDEMPOTENCY_KEY).map(|key| key.to_str().unwrap().to_owned())
        };
        let shared = upstream(Some("sk-ours"));
        let first = of(&shared, "k", 1);
        assert_eq!(
            (of(&shared, "k", 1), first.as_ref().map(String::len)),
            (first.clone(), Some(64))
        );
        for (key, caller) in [("k", 2), ("l", 1)] {
            assert_ne!(of(&shared, key, caller), first);
        }
        assert_eq!(of(&shared, "", 1), None);
        assert_eq!(of(&upstream(None), "k", 1).as_deref(), Some("k"));
    }

    #[test]
    fn addresses() {
        assert_eq!(upstream(None).base, "http://127.0.0.1:1/v1");
        for base in ["", "api.openai.com", "file:///etc", "https://u:p@x/v1", "https://x/v1?a=b"] {
            let upstream = Upstream::new(base, None, KeyIn::ApiKey, Duration::from_secs(1));
            assert!(upstream.is_err(), "{base}");
        }
        let with_key =
            |key| Upstream::new("https://x", Some(key), KeyIn::ApiKey, Duration::ZERO).err();
        let broken = with_key("a\nb");
        assert_eq!(broken.as_deref(), Some("the upstream's key is not one line of text"));
        let empty = with_key(" \n");
        assert_eq!(empty.as_deref(), Some("the upstream's key is empty"));
    }
}
