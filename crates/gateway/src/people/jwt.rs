//! JSON Web Tokens: whose they are, once signature and times hold. The algorithm is that of the key that the
//! gateway was started with, never one that a token names: so none is signed with `none`, or with a public
//! key as if it were a secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memory_agent_core::text::ids;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// Shorter secrets are guessed.
const MIN_SECRET_BYTES: usize = 32;
/// By how much the clock of who signed may differ, in seconds.
const CLOCKS_DIFFER: u64 = 30;

/// What tokens are checked with.
pub struct Jwt {
    keys: Keys,
    /// The claim that names the user.
    claim: String,
    /// What `aud` has to name.
    audience: Option<String>,
}

enum Keys {
    /// HS256.
    Secret(hmac::Key),
    /// RS256, ES256 and EdDSA.
    Public(Vec<PublicKey>),
}

struct PublicKey {
    id: Option<String>,
    material: Material,
}

/// A public key of an algorithm.
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// What a file of public keys (JWKS) says of one.
#[derive(Deserialize)]
struct Described {
    kty: String,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    kid: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Described {
    /// The key, if it is for signatures of an algorithm that is known here (RFC 7518, 6.2 and 6.3; RFC 8037, 2).
    fn key(self) -> Option<PublicKey> {
        if self.purpose.is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let decoded = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { modulus: decoded(self.n)?, exponent: decoded(self.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (decoded(self.x)?, decoded(self.y)?);
                Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(decoded(self.x)?),
            _ => return None,
        };
        let is_for_it = self.alg.is_none_or(|alg| alg == material.algorithm());
        is_for_it.then_some(PublicKey { id: self.kid, material })
    }
}

impl Material {
    /// The one algorithm whose signatures it verifies.
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, text, signature),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature)
            }
            Self::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(text, signature),
        }
        .is_ok()
    }
}

impl Jwt {
    /// Tokens that were signed with a secret (HS256).
    ///
    /// # Errors
    /// That the secret is too short.
    pub fn with_secret(secret: &[u8], claim: &str, audience: Option<&str>) -> Result<Self, String> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(format!("the secret of JWTs must have at least {MIN_SECRET_BYTES} bytes"));
        }
        Ok(Self::new(Keys::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)), claim, audience))
    }

    /// Tokens that were signed with the private part of one of these keys (RS256, ES256 or EdDSA), a JWKS document.
    /// Keys of other kinds, and for other purposes, are passed over.
    ///
    /// # Errors
    /// That it cannot be read, or has no such key.
    pub fn with_keys(document: &str, claim: &str, audience: Option<&str>) -> Result<Self, String> {
        let document: Value = serde_json::from_str(document)
            .map_err(|error| format!("the keys of JWTs are not JSON: {error}"))?;
        let keys = document.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
        let public: Vec<PublicKey> = keys
            .into_iter()
            .filter_map(|key| serde_json::from_value::<Described>(key).ok())
            .filter_map(Described::key)
            .collect();
        if public.is_empty() {
            return Err("the keys of JWTs have none for RS256, ES256 or EdDSA".to_owned());
        }
        Ok(Self::new(Keys::Public(public), claim, audience))
    }

    fn new(keys: Keys, claim: &str, audience: Option<&str>) -> Self {
        Self { keys, claim: claim.to_owned(), audience: audience.map(str::to_owned) }
    }

    /// The user that a token is for; `None` unless everything holds. The caller is not told why.
    pub fn user(&self, token: &str, now: SystemTime) -> Option<String> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        // What a token calls critical has to be understood, and nothing is here.
        if header.contains_key("crit") {
            return None;
        }
        let algorithm = header.get("alg").and_then(Value::as_str)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key_id = header.get("kid").and_then(Value::as_str);
        if !self.keys.verify(algorithm, key_id, signed.as_bytes(), &signature) {
            return None;
        }
        self.claimed(&object(claims)?, now.duration_since(UNIX_EPOCH).ok()?.as_secs())
    }

    fn claimed(&self, claims: &Map<String, Value>, now: u64) -> Option<String> {
        let time = |name: &str| claims.get(name).map(Value::as_f64);
        let (now, differ) = (now as f64, CLOCKS_DIFFER as f64);
        let goes_on = time("exp").flatten().is_some_and(|end| end + differ > now);
        // A time that is no number does not hold either.
        let has_begun =
            time("nbf").is_none_or(|begin| begin.is_some_and(|begin| begin - differ <= now));
        if !goes_on || !has_begun || !self.is_for_us(claims.get("aud")) {
            return None;
        }
        let user = claims.get(&self.claim)?.as_str()?;
        (user != "*" && ids::check(user).is_ok()).then(|| user.to_owned())
    }

    /// A token for another service is refused.
    fn is_for_us(&self, audience: Option<&Value>) -> bool {
        match (&self.audience, audience) {
            (None, None) => true,
            (Some(own), Some(Value::String(named))) => named == own,
            (Some(own), Some(Value::Array(named))) => {
                named.iter().any(|named| named.as_str() == Some(own))
            }
            _ => false,
        }
    }
}

impl Keys {
    fn verify(&self, algorithm: &str, id: Option<&str>, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Secret(key) => {
                algorithm == "HS256" && hmac::verify(key, signed, signature).is_ok()
            }
            Self::Public(keys) => keys
                .iter()
                .filter(|key| key.material.algorithm() == algorithm)
                .filter(|key| id.is_none() || key.id.is_none() || key.id.as_deref() == id)
                .any(|key| key.material.has_signed(signed, signature)),
        }
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;
    use std::time::Duration;

    const SECRET: &[u8] = b"a secret of more than thirty-two bytes";
    /// A key that was made for these tests, and a token for ann that it signed; it ends in 2033.
    const MODULUS: &str = "tOjs3ReVpXUPT7fZgiLBIXnjqY9RD3VdQnVcIqfc8vdEFMoZowuq-uTnj4ho3KJJVM8-PIpCUba0PEJ0Xg6uiCcM07Y-I8ZQMeBBb4Orj0xs_5zdLd0i3BHvVmGITr4EDvP-cU6z-dv60-vgbJeuziWwNds6hqutsFOlRzu0NdeRyNNZWStjK8T1FG0oIm6TXN_-gqTLW-WV1wGodDNiQX1LBqwDFb0Cgp1StTwBrshrj8atmzYVARAicvupFnxEU7QhCj8aGJsBQ_R-dlOjIy5fLZRNEtUp7vUElAWAAdqXziiL42-J1z40VSJ50nhmXufoSscdZFU2urXRD9IUhQ";
    const SIGNED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.eyJzdWIiOiJhbm4iLCJleHAiOjIwMDAwMDAwMDB9.qVgEllHnzsty2ERv-uGDRxxuNt9okUtBTvq_P3HOHhAGrjNstDlJc7iRDD_iq_Sne_dygUTZBIpn5vjdtGCvPxa4sce5Hngxe992s6FbKJJJYw5e-FAHKV9sMkBzUIV2cghWomlyv58AkSSCaZ4RgLZbHpyGcAcD_WanI6W9Ietoq-Gz4CMj056m3dSCpwMw6GErtC8EMLRCgMOGmRnyQQVjpwtsuNoYKGVNiKsl-oaY3pzZWv8gfOG9-e9Tb5c0sSlkfiO6s-l2WD-StzugR_KM4rqvfkfDCsXf8O1xJGy_WNsxP9W2PoLMua4ScLn4pI_1o_FGw4X3_RPJ21KfUA";

    /// Makes the signature of a text.
    type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

    /// A key of each other kind as JWKS, its algorithm, and what signs with it.
    fn other_keys() -> [(Value, &'static str, Sign); 2] {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let elliptic =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
                .unwrap();
        let (x, y) = elliptic.public_key().as_ref()[1..].split_at(32);
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let of_elliptic = json!({"kty": "EC", "crv": "P-256", "x": part(x), "y": part(y)});
        let edwards = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let of_edwards =
            json!({"kty": "OKP", "crv": "Ed25519", "x": part(edwards.public_key().as_ref())});
        [
            (
                of_elliptic,
                "ES256",
                Box::new(move |text| elliptic.sign(&random, text).unwrap().as_ref().to_vec()),
            ),
            (of_edwards, "EdDSA", Box::new(move |text| edwards.sign(text).as_ref().to_vec())),
        ]
    }

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_900_000_000)
    }

    fn encoded(header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(header), part(claims))
    }

    fn signed(header: &Value, claims: &Value) -> String {
        let text = encoded(header, claims);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    fn with_secret(claims: &Value) -> Option<String> {
        let jwt = Jwt::with_secret(SECRET, "sub", None).unwrap();
        jwt.user(&signed(&json!({"alg": "HS256"}), claims), now())
    }

    fn keys() -> String {
        json!({"keys": [
            {"kty": "EC", "kid": "k0"},
            {"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": MODULUS, "e": "AQAB"},
        ]})
        .to_string()
    }

    #[test]
    fn a_signed_token_names_its_user() {
        assert_eq!(with_secret(&json!({"sub": "ann", "exp": 2e9})).as_deref(), Some("ann"));
        let jwt = Jwt::with_keys(&keys(), "sub", None).unwrap();
        assert_eq!(jwt.user(SIGNED, now()).as_deref(), Some("ann"));
        let jwt = Jwt::with_secret(SECRET, "email", None).unwrap();
        let claims = json!({"sub": "1", "email": "ann@example.org", "exp": 2e9});
        let token = signed(&json!({"alg": "HS256", "typ": "JWT"}), &claims);
        assert_eq!(jwt.user(&token, now()).as_deref(), Some("ann@example.org"));
    }

    #[test]
    fn the_algorithm_is_that_of_the_key() {
        let claims = json!({"sub": "ann", "exp": 2e9});
        let secret = Jwt::with_secret(SECRET, "sub", None).unwrap();
        let public = Jwt::with_keys(&keys(), "sub", None).unwrap();
        for algorithm in ["none", "None", "RS256", "HS512", ""] {
            let token = signed(&json!({"alg": algorithm}), &claims);
            assert_eq!(secret.user(&token, now()), None, "{algorithm}");
        }
        assert_eq!(
            secret.user(&format!("{}.", encoded(&json!({"alg": "none"}), &claims)), now()),
            None
        );
        assert_eq!(secret.user(SIGNED, now()), None);
        // The public key, which attackers know, as a secret.
        for known in [
            MODULUS.as_bytes().to_vec(),
            keys().into_bytes(),
            URL_SAFE_NO_PAD.decode(MODULUS).unwrap(),
        ] {
            let text = encoded(&json!({"alg": "HS256", "kid": "k1"}), &claims);
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &known), text.as_bytes());
            let token = format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag));
            assert_eq!(public.user(&token, now()), None);
        }
    }

    #[test]
    fn keys_of_elliptic_curves_sign_too() {
        let claims = json!({"sub": "ann", "exp": 2e9});
        let all = other_keys();
        for (key, algorithm, sign) in &all {
            let jwt = Jwt::with_keys(&json!({"keys": [key]}).to_string(), "sub", None).unwrap();
            let signed = |named: &str| {
                let text = encoded(&json!({"alg": named}), &claims);
                let signature = URL_SAFE_NO_PAD.encode(sign(text.as_bytes()));
                format!("{text}.{signature}")
            };
            let token = signed(algorithm);
            assert_eq!(jwt.user(&token, now()).as_deref(), Some("ann"), "{algorithm}");
            for other in ["RS256", "ES256", "EdDSA", "HS256", "none"] {
                assert_eq!(
                    jwt.user(&signed(other), now()).is_some(),
                    other == *algorithm,
                    "{other}"
                );
            }
            assert_eq!(jwt.user(&token[..token.len() - 2], now()), None);
            assert_eq!(jwt.user(SIGNED, now()), None);
            // The keys of another service.
            for (other, ..) in all.iter().filter(|(_, named, _)| named != algorithm) {
                let jwt =
                    Jwt::with_keys(&json!({"keys": [other]}).to_string(), "sub", None).unwrap();
                assert_eq!(jwt.user(&token, now()), None);
            }
            let mut elsewhere = key.clone();
            elsewhere["alg"] = json!("ES384");
            let document = json!({"keys": [elsewhere]}).to_string();
            assert!(Jwt::with_keys(&document, "sub", None).is_err(), "a key for another algorithm");
        }
    }

    #[test]
    fn what_was_changed_or_is_broken_does_not_hold() {
        let jwt = Jwt::with_keys(&keys(), "sub", None).unwrap();
        let (signed_part, signature) = SIGNED.rsplit_once('.').unwrap();
        let other = encoded(&json!({"alg": "RS256"}), &json!({"sub": "bob", "exp": 2e9}));
        for token in [
            format!("{other}.{signature}"),
            format!("{signed_part}."),
            signed_part.to_owned(),
            SIGNED[..SIGNED.len() - 2].to_owned(),
            format!("{SIGNED}="),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(jwt.user(&token, now()), None, "{token}");
        }
        let critical = json!({"alg": "HS256", "crit": ["x"], "x": 1});
        let secret = Jwt::with_secret(SECRET, "sub", None).unwrap();
        assert_eq!(
            secret.user(&signed(&critical, &json!({"sub": "ann", "exp": 2e9})), now()),
            None
        );
    }

    #[test]
    fn claims_have_to_hold() {
        let now = 1_900_000_000_u64;
        for claims in [
            json!({"sub": "ann"}),
            json!({"sub": "ann", "exp": now - 31}),
            json!({"sub": "ann", "exp": "2000000000"}),
            json!({"sub": "ann", "exp": 2e9, "nbf": now + 31}),
            json!({"sub": "ann", "exp": 2e9, "nbf": "x"}),
            json!({"sub": "ann", "exp": 2e9, "aud": "others"}),
            json!({"exp": 2e9}),
            json!({"sub": 7, "exp": 2e9}),
            json!({"sub": " ", "exp": 2e9}),
            json!({"sub": "*", "exp": 2e9}),
            json!({"sub": "ann\0", "exp": 2e9}),
            json!({"sub": "ann\n", "exp": 2e9}),
            json!({"sub": " ann", "exp": 2e9}),
            json!({"sub": "x".repeat(513), "exp": 2e9}),
        ] {
            assert_eq!(with_secret(&claims), None, "{claims}");
        }
        let late = json!({"sub": "ann", "exp": now - 29, "nbf": now + 29});
        assert_eq!(with_secret(&late).as_deref(), Some("ann"));
        let jwt = Jwt::with_secret(SECRET, "sub", Some("memory")).unwrap();
        for (audience, holds) in [
            (json!("memory"), true),
            (json!(["a", "memory"]), true),
            (json!("a"), false),
            (Value::Null, false),
        ] {
            let claims = json!({"sub": "ann", "exp": 2e9, "aud": audience});
            let token = signed(&json!({"alg": "HS256"}), &claims);
            assert_eq!(jwt.user(&token, self::now()).is_some(), holds, "{audience}");
        }
    }

    #[test]
    fn invalid_keys() {
        assert!(Jwt::with_secret(b"short", "sub", None).is_err());
        for document in [
            "",
            "{}",
            r#"{"keys":[]}"#,
            r#"{"keys":[{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"}]}"#,
            r#"{"keys":[{"kty":"EC","crv":"P-384","x":"AQAB","y":"AQAB"}]}"#,
            r#"{"keys":[{"kty":"OKP","crv":"X25519","x":"AQAB"}]}"#,
        ] {
            assert!(Jwt::with_keys(document, "sub", None).is_err(), "{document}");
        }
    }
}
