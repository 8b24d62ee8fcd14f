//! Checks the address of an endpoint, once for all that is built from it.

use reqwest::Url;

/// A valid base URL without a slash at its end.
#[derive(Debug, Clone)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// # Errors
    /// A message that says what is wrong. It does not repeat the URL, which may contain a
    /// password that was put there by mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut url = Url::parse(text.trim()).map_err(|error| format!("base_url: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("base_url must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("base_url must not contain a user name or password; use the key's own \
                        setting"
                .to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("base_url must not contain a query or fragment".to_owned());
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The URL in its normal form, for messages and comparison.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// The URL with further path segments, each escaped.
    #[must_use]
    pub fn join(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        // Only URLs such as mailto: have no segments; parse() lets none of them pass.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    /// Whether the last segment of the path is `segment`.
    #[must_use]
    pub fn ends_with(&self, segment: &str) -> bool {
        self.0.path_segments().and_then(|mut segments| segments.next_back()) == Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_make_no_difference() {
        for text in [
            "http://localhost:11434/v1",
            "http://localhost:11434/v1/",
            " http://localhost:11434/v1// ",
        ] {
            let url = BaseUrl::parse(text).unwrap();
            assert_eq!(url.as_str(), "http://localhost:11434/v1");
            assert_eq!(
                url.join(&["chat", "completions"]).as_str(),
                "http://localhost:11434/v1/chat/completions"
            );
            assert!(url.ends_with("v1"));
        }
        let bare = BaseUrl::parse("https://api.example.com").unwrap();
        assert_eq!(bare.as_str(), "https://api.example.com");
        assert_eq!(bare.join(&["v1", "messages"]).as_str(), "https://api.example.com/v1/messages");
    }

    #[test]
    fn segments_cannot_change_the_path_above_them() {
        let url = BaseUrl::parse("https://host/a").unwrap();
        assert_eq!(url.join(&["x/../../y?z#w"]).as_str(), "https://host/a/x%2F..%2F..%2Fy%3Fz%23w");
    }

    #[test]
    fn other_urls_are_refused_without_repeating_them() {
        for text in [
            "",
            "localhost:8080",
            "file:///etc/passwd",
            "ftp://host/",
            "https://user:geheim@host/v1",
            "https://geheim@host/v1",
            "https://host/v1?key=geheim",
            "https://host/v1#geheim",
        ] {
            let message = BaseUrl::parse(text).unwrap_err();
            assert!(message.starts_with("base_url"), "{message}");
            assert!(!message.contains("geheim"), "{message}");
        }
    }
}
