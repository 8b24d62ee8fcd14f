//! JWTs that are shown to the gateway: none counts that was not signed, and of those that were only such as
//! name a user and have not ended.

use crate::linear;
use crate::people::jwt::Jwt;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use std::time::{Duration, UNIX_EPOCH};

const SECRET: &[u8] = b"a secret of more than thirty-two bytes";
const NOW: u64 = 1_900_000_000;

/// The input is a token; and then, signed, the header and the claims of one, with a blank line between.
pub fn check(data: &[u8]) {
    let text = crate::text(data);
    let jwt = Jwt::with_secret(SECRET, "sub", None).expect("a secret");
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    assert_eq!(linear(text.len(), || jwt.user(&text, now)), None);
    let (header, claims) = text.split_once("\n\n").unwrap_or((r#"{"alg":"HS256"}"#, &text));
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag));
    if let Some(user) = linear(text.len(), || jwt.user(&token, now)) {
        assert!(
            !user.trim().is_empty() && user != "*" && user.len() <= 512 && !user.contains('\0')
        );
        let header: serde_json::Value = serde_json::from_str(header).expect("a header");
        assert!(header["alg"] == "HS256" && header.get("crit").is_none());
        let claims: serde_json::Value = serde_json::from_str(claims).expect("claims");
        assert_eq!(claims["sub"], user.as_str());
        assert!(claims["exp"].as_f64().is_some_and(|end| end + 30.0 > NOW as f64));
        assert!(claims.get("aud").is_none());
    }
}
