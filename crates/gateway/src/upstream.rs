//! The service that answers: where it is, with which key, and which headers go there and come back. Paths
//! are fixed words, so that nothing in a request decides which address is asked.

use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method};
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
const WITH_OUR_KEY: [&str; 7] = [
    "accept",
    "content-type",
    "user-agent",
    "idempotency-key",
    "openai-beta",
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

/// Where requests go.
pub struct Upstream {
    client: Client,
    /// Without the slash at the end.
    base: String,
    /// Instead of the caller's.
    key: Option<HeaderValue>,
    /// Longest silence.
    patience: Duration,
}

impl Upstream {
    /// # Errors
    /// What is wrong with the address or the key, or why TLS cannot be set up. The key is in no message.
    pub fn new(base: &str, key: Option<&str>, patience: Duration) -> Result<Self, String> {
        let url = Url::parse(base).map_err(|error| format!("the upstream's address: {error}"))?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_whole = url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !matches!(url.scheme(), "http" | "https") || !is_plain || !is_whole {
            return Err("the upstream's address must be like https://api.openai.com/v1".to_owned());
        }
        let key = key
            .map(|key| {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
                    .map_err(|_| "the upstream's key is no text of one line".to_owned())?;
                value.set_sensitive(true);
                Ok::<_, String>(value)
            })
            .transpose()?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client: client()?, base, key, patience })
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
        path: &'static str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .headers(self.headers(headers))
            .body(body);
        match tokio::time::timeout(self.patience, request.send()).await {
            Ok(sent) => sent.map_err(|error| reason(&error)),
            Err(_) => Err("no answer in time".to_owned()),
        }
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
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, key.clone());
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
                None => !OF_ONE_CONNECTION.contains(&word) && !named.contains(name),
            };
            if goes && !word.starts_with(OWN) {
                kept.append(name.clone(), value.clone());
            }
        }
        if let Some(key) = &self.key {
            kept.insert(header::AUTHORIZATION, key.clone());
        }
        kept
    }
}

/// The headers of an answer that go on to the caller.
pub fn answered(headers: &HeaderMap) -> HeaderMap {
    let named = connection_headers(headers);
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let word = name.as_str();
        let is_ours = word.starts_with(OWN) || word == "set-cookie";
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
        Upstream::new("http://127.0.0.1:1/v1/", key, Duration::from_secs(1)).unwrap()
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
        ]);
        let through = upstream(None).headers(&sent);
        let mut names: Vec<&str> = through.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = ["authorization", "content-type", "openai-organization", "x-stainless-lang"];
        assert_eq!(names, expected);
        assert_eq!(through["authorization"], "Bearer sk-1");
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
            assert!(Upstream::new(base, None, Duration::from_secs(1)).is_err(), "{base}");
        }
        let broken = Upstream::new("https://x", Some("a\nb"), Duration::from_secs(1)).err();
        assert_eq!(broken.as_deref(), Some("the upstream's key is no text of one line"));
    }
}
