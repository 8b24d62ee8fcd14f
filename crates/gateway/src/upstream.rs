//! The service that answers: where it is, with which key, and which headers go there and come back. Paths
//! are fixed words, or with the caller's key what `forward.rs` lets through, so that nothing in a request decides
//! which host is asked.

use crate::authentication::holds_token;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use rustls::{ClientConfig, RootCertStore};
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
/// What is about one connection, or about a body as it was sent on it. Answers come as they are, not
/// compressed, for they are read here.
const OF_ONE_CONNECTION: [&str; 14] = [
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
    "content-length",
    "accept-encoding",
    "expect",
    "cookie",
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
        Ok(Self { client: client()?, base, key, patience })
    }

    /// Where it is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether requests go there with the gateway's key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a request and waits for the headers of the answer.
    ///
    /// # Errors
    /// That it cannot be reached, in words that name neither address nor key.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .headers(self.headers(headers))
            .body(body);
        let answer = match tokio::time::timeout(self.patience, request.send()).await {
            Ok(sent) => sent.map_err(|error| reason(&error))?,
            Err(_) => return Err("no answer in time".to_owned()),
        };
        // Its words are about a key that is not the caller's, and may quote it.
        if self.has_key() && answer.status() == StatusCode::UNAUTHORIZED {
            return Err("the upstream refuses the gateway's key".to_owned());
        }
        Ok(answer)
    }

    /// The next bytes of an answer; `None` at its end.
    ///
    /// # Errors
    /// That it broke off.
    pub async fn next(&self, response: &mut Response) -> Result<Option<bytes::Bytes>, String> {
        match tokio::time::timeout(self.patience, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| reason(&error)),
            Err(_) => Err("the upstream fell silent".to_owned()),
        }
    }

    /// Whether it answers at all, whatever it says.
    pub async fn is_there(&self) -> bool {
        let mut request = self.client.get(format!("{}/models", self.base)).timeout(LOOK_TIMEOUT);
        if let Some((name, key)) = &self.key {
            request = request.header(name, key.clone());
        }
        request.send().await.is_ok()
    }

    fn headers(&self, headers: &HeaderMap) -> HeaderMap {
        let named = connection_headers(headers);
        let mut kept = HeaderMap::new();
        for (name, value) in headers {
            let word = name.as_str();
            let goes = match self.key {
                Some(_) => WITH_OUR_KEY.contains(&word) || word.starts_with("x-stainless-"),
                None => {
                    let is_ours = OF_ONE_CONNECTION.contains(&word) || is_of_a_proxy(word);
                    !is_ours && !named.contains(name)
                }
            };
            let has_token = holds_token(word.as_bytes()) || holds_token(value.as_bytes());
            if goes && !has_token && !word.starts_with(OWN) {
                kept.append(name.clone(), value.clone());
            }
        }
        if let Some((name, key)) = &self.key {
            kept.insert(name, key.clone());
        }
        kept
    }
}

/// Whether a header says how a request came here, which is nobody else's business.
fn is_of_a_proxy(name: &str) -> bool {
    matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
}

/// Whether a header of an answer is about the upstream as a server of its own: what may be kept of it, by
/// whom it may be read, how else it is reached.
fn is_of_a_server(name: &str) -> bool {
    matches!(
        name,
        "set-cookie"
            | "alt-svc"
            | "strict-transport-security"
            | "cache-control"
            | "expires"
            | "pragma"
            | "age"
    ) || name.starts_with("access-control-")
}

/// The headers of an answer that go on to the caller.
pub fn answered(headers: &HeaderMap) -> HeaderMap {
    let named = connection_headers(headers);
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let word = name.as_str();
        let is_ours = word.starts_with(OWN) || is_of_a_server(word);
        if !is_ours && !OF_ONE_CONNECTION.contains(&word) && !named.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
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
fn reason(error: &reqwest::Error) -> String {
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
        ]);
        let through = upstream(None).headers(&sent);
        let mut names: Vec<&str> = through.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = ["authorization", "content-type", "openai-organization", "x-stainless-lang"];
        assert_eq!(names, expected);
        assert_eq!(through["authorization"], "Bearer sk-1");
        // With our key a token may stand in Authorization; where else it stands, it goes nowhere.
        let token: &'static str = format!("curl/8 mat_{}", "0a".repeat(32)).leak();
        let mut sent = sent;
        sent.extend(headers(&[("user-agent", token), ("x-stainless-os", token)]));
        let name: &'static str = format!("x-stainless-mat_{}", "0a".repeat(32)).leak();
        sent.extend(headers(&[(name, "1")]));
        let ours = upstream(Some("sk-ours\n")).headers(&sent);
        let mut names: Vec<&str> = ours.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "content-type", "x-stainless-lang"]);
        assert_eq!(ours["authorization"], "Bearer sk-ours");
    }

    #[test]
    fn an_answer_comes_without_what_is_about_its_connection() {
        let came = headers(&[
            ("content-type", "text/event-stream"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("x-memory-stored", "forged"),
            ("set-cookie", "a=b"),
            ("cache-control", "public, max-age=600"),
            ("access-control-allow-origin", "*"),
            ("alt-svc", "h3=\":443\""),
            ("x-request-id", "r"),
        ]);
        let mut names: Vec<String> =
            answered(&came).keys().map(|name| name.as_str().to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "x-request-id"]);
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
