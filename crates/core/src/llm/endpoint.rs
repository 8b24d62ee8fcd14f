//! Names and addresses of the LLM endpoints that are kept as rows.

use crate::limits::{COLUMN_BYTES, URL_BYTES};

/// Whether this can name an endpoint, or a key in the folder of its host: letters, digits, `.`, `_` and `-`,
/// at most 63, the first a letter or a digit. No such name leaves its folder.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= COLUMN_BYTES
        && name.bytes().all(is_plain)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The host of an address, with its port where it names one: `api.openai.com`, `127.0.0.1:8080`. The keys for
/// this host are in a folder of that name, so a key is sent to no other.
///
/// `None` for what is no address in the form that is kept: `http` or `https`, the host in lower case, no user,
/// no query, no fragment.
#[must_use]
pub fn host(base_url: &str) -> Option<&str> {
    let is_printable = |byte: u8| byte.is_ascii_graphic() && !b"?#@\\".contains(&byte);
    if base_url.len() > URL_BYTES || !base_url.bytes().all(is_printable) {
        return None;
    }
    let rest = base_url.strip_prefix("https://").or_else(|| base_url.strip_prefix("http://"))?;
    let host = rest.split('/').next()?;
    let is_of_host =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
    let begins = host.bytes().next().is_some_and(|first| first != b'.' && first != b':');
    (begins && host.bytes().all(is_of_host)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for good in ["a", "openai", "team-1.key_2", &"x".repeat(63)] {
            assert!(is_name(good), "{good}");
        }
        let long = "x".repeat(64);
        for bad in
            ["", ".", "..", "../key", "a/b", "-a", ".hidden", "a b", "ä", "a\0", "a\n", &long]
        {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn an_address_has_one_host() {
        for (url, expected) in [
            ("https://api.openai.com/v1", "api.openai.com"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]:11434/v1/", "[::1]:11434"),
            ("https://my-resource.openai.azure.com", "my-resource.openai.azure.com"),
        ] {
            assert_eq!(host(url), Some(expected));
        }
        let long = format!("https://a/{}", "x".repeat(URL_BYTES));
        for url in [
            "",
            "api.openai.com",
            "ftp://a",
            "https://",
            "https:///v1",
            "https://API.openai.com/v1",
            "https://../v1",
            "https://.",
            "https://:80/",
            "https://user@host/v1",
            "https://host?x=1",
            "https://host/v1#x",
            "https://host\\@evil/v1",
            "https://ho st/",
            "https://host/\n",
            "https://ä/",
            "HTTPS://host/v1",
            &long,
        ] {
            assert_eq!(host(url), None, "{url}");
        }
    }
}
