//! The scanner: where the secrets of a text are, found by how they begin. Each byte is looked at a few times at most.

use crate::text::secrets::Form;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Reads a text from its beginning to its end.
pub(super) struct Scanner<'a> {
    text: &'a str,
    pub(super) bytes: &'a [u8],
    /// The end of the last secret: what stands before is going to be another text.
    pub(super) done: usize,
    /// Where the first end of a PEM block is, of those not looked for yet; `None` when there are no more.
    pem_end: Option<usize>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), done: 0, pem_end: Some(0) }
    }

    /// The secret that begins here: its end and form.
    pub(super) fn secret_at(&mut self, at: usize) -> Option<(usize, Form)> {
        match self.bytes[at] {
            b'-' => Some((self.pem(at)?, Form::PrivateKey)),
            b's' if self.begins(at, "sk-") => Some((self.api_key(at)?, Form::ApiKey)),
            b'A' if self.begins(at, "AKIA") || self.begins(at, "ASIA") => {
                let end = self.run(at, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
                (end - at == 20 && !self.is_in_word(end)).then_some((end, Form::AwsKey))
            }
            b'g' if self.is_first(at) => Some((self.github_token(at)?, Form::GithubToken)),
            b'x' if self.begins(at, "xox") => Some((self.slack_token(at)?, Form::SlackToken)),
            b'e' if self.begins(at, "eyJ") => Some((self.jwt(at)?, Form::Jwt)),
            b'0'..=b'9' => Some((self.card(at)?, Form::Card)),
            _ => None,
        }
    }

    /// How far it is to the next place where a secret may begin. A number is looked at once.
    pub(super) fn skip(&self, at: usize) -> usize {
        match self.bytes[at] {
            b'0'..=b'9' => self.digits(at) - at,
            _ => 1,
        }
    }

    fn begins(&self, at: usize, prefix: &str) -> bool {
        self.bytes[at..].starts_with(prefix.as_bytes()) && self.is_first(at)
    }

    /// Whether no word goes on here. The letter of an escape such as `\n` belongs to none.
    fn is_first(&self, at: usize) -> bool {
        match self.before(at, 1) {
            Some(b'n' | b'r' | b't') => self.before(at, 2) == Some(b'\\'),
            Some(byte) => !is_of_token(byte),
            None => true,
        }
    }

    /// The byte so far before.
    pub(super) fn before(&self, at: usize, offset: usize) -> Option<u8> {
        at.checked_sub(offset).filter(|place| *place >= self.done).map(|place| self.bytes[place])
    }

    pub(super) fn is_in_word(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    }

    /// The end of the bytes from here on for which `is_of` holds.
    fn run(&self, at: usize, is_of: fn(u8) -> bool) -> usize {
        let rest = &self.bytes[at..];
        at + rest.iter().position(|byte| !is_of(*byte)).unwrap_or(rest.len())
    }

    pub(super) fn digits(&self, at: usize) -> usize {
        self.run(at, |byte| byte.is_ascii_digit())
    }

    /// `sk-` and a key: names with hyphens have no such long piece of letters and digits.
    fn api_key(&self, at: usize) -> Option<usize> {
        let end = self.run(at, is_of_token);
        let is_random = |piece: &[u8]| {
            piece.len() >= 16
                && piece.iter().any(u8::is_ascii_digit)
                && piece.iter().any(u8::is_ascii_alphabetic)
        };
        let mut pieces = self.bytes[at + 3..end].split(|byte| !byte.is_ascii_alphanumeric());
        (end - at >= 23 && pieces.any(is_random)).then_some(end)
    }

    fn github_token(&self, at: usize) -> Option<usize> {
        let rest = &self.bytes[at..];
        let (prefix, least) = match rest {
            [b'g', b'h', b'p' | b'o' | b'u' | b's' | b'r', b'_', ..] => (4, 36),
            _ if rest.starts_with(b"github_pat_") => (11, 60),
            _ => return None,
        };
        let end = self.run(at + prefix, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (end - at >= prefix + least).then_some(end)
    }

    fn slack_token(&self, at: usize) -> Option<usize> {
        let kind = |at: usize| match self.bytes.get(at..at + 5) {
            Some([b'x', b'o', b'x', kind, next]) if kind.is_ascii_lowercase() => Some(*next),
            _ => None,
        };
        let start = match kind(at)? {
            b'-' => at + 5,
            // A token that can be renewed: `xoxe.xoxb-`.
            b'.' if kind(at + 5)? == b'-' => at + 10,
            _ => return None,
        };
        let end = self.run(start, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let has_digit = self.bytes[start..end].iter().any(u8::is_ascii_digit);
        (end - start >= 20 && has_digit).then_some(end)
    }

    /// Three pieces of base64 or more, of which the first is a JSON object with an algorithm.
    fn jwt(&self, at: usize) -> Option<usize> {
        const LONGEST_HEADER: usize = 4096;
        let mut end = self.run(at, is_of_token);
        let header =
            URL_SAFE_NO_PAD.decode(self.text.get(at..end.min(at + LONGEST_HEADER))?).ok()?;
        let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
        header.get("alg")?;
        let mut pieces = 1;
        while pieces < 5 && self.bytes.get(end) == Some(&b'.') {
            let next = self.run(end + 1, is_of_token);
            // The full stop behind it is not a part of it.
            if next - end < 10 {
                break;
            }
            (end, pieces) = (next, pieces + 1);
        }
        (pieces >= 3).then_some(end)
    }

    /// A private key, to the end of its block or, if that is not there, of its lines.
    fn pem(&mut self, at: usize) -> Option<usize> {
        const BEGIN: &str = "-----BEGIN ";
        const END: &str = "-----END ";
        let body = self.end_of_label(at, BEGIN)?;
        if self.pem_end.is_some_and(|end| end < body) {
            self.pem_end = self.text[body..].find(END).map(|offset| body + offset);
        }
        let end = self.pem_end.and_then(|end| self.end_of_label(end, END));
        end.or_else(|| self.lines_of_base64(body))
    }

    /// The end of a line of this kind about a private key.
    fn end_of_label(&self, at: usize, kind: &str) -> Option<usize> {
        let rest = self.text[at..].strip_prefix(kind)?;
        let start = at + kind.len();
        let end = self
            .run(start, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' ');
        let label = &rest[..end - start];
        let is_private = label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK");
        (is_private && self.text[end..].starts_with("-----")).then_some(end + 5)
    }

    /// The end of the long pieces of base64 from here on, if there is one.
    fn lines_of_base64(&self, start: usize) -> Option<usize> {
        const LEAST: usize = 32;
        let (mut end, mut at) = (start, start);
        loop {
            at = self.run(at, |byte| byte.is_ascii_whitespace());
            while self.text[at..].starts_with("\\n") {
                at += 2;
            }
            let next = self.run(at, |byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
            if next - at < LEAST {
                return (end > start).then_some(end);
            }
            (end, at) = (next, next);
        }
    }
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}
