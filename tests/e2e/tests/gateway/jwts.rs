//! JWTs of other programs: who signs them is known by a secret or by public keys, and with what algorithm. What a
//! token says of that itself decides nothing.

use crate::http::{chat, says};
use crate::people::{bearer, token, with_tokens};
use crate::upstream::Upstream;
use crate::{cluster, stored};
use memory_agent_e2e::{Certificates, Json, json};
use std::process::Command;

/// A JWT that a secret signs, made by something else than what checks it.
fn jwt(secret: &str, header: &Json, claims: &Json) -> String {
    const SCRIPT: &str = "import base64, hashlib, hmac, sys\n\
                          part = lambda data: base64.urlsafe_b64encode(data).rstrip(b'=').decode()\n\
                          text = '.'.join(part(data.encode()) for data in sys.argv[2:])\n\
                          print(text + '.' + part(hmac.digest(sys.argv[1].encode(), text.encode(), 'sha256')))";
    python(SCRIPT, &[secret, &header.to_string(), &claims.to_string()])
}

fn python(script: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("/usr/bin/python3");
    let output = command.args(["-c", script]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_jwt_says_whose_memory_it_is() {
    const SECRET: &str = "a secret of more than thirty-two bytes";
    let file = cluster().socket_directory().join("people_jwt.secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let file = file.to_string_lossy().into_owned();
    let upstream = Upstream::saying("Yes.");
    let arguments = ["--jwt-secret-file", &file, "--jwt-claim", "email"];
    let (gateway, mut client) = with_tokens("people_jwt", &upstream, &arguments);
    let header = json!({"alg": "HS256", "typ": "JWT"});
    let claims = json!({"sub": "1", "email": "ann", "exp": 4_000_000_000_u64});
    let with = |token: &str| {
        let headers = [("authorization", &*bearer(token))];
        chat(&gateway, &headers, &says("s", "Hello.")).status
    };
    let good = jwt(SECRET, &header, &claims);
    assert_eq!(with(&good), 200);
    assert_eq!(with(&jwt("another secret of more than thirty-two bytes", &header, &claims)), 401);
    assert_eq!(with(&jwt(SECRET, &json!({"alg": "none"}), &claims)), 401);
    assert_eq!(with(&jwt(SECRET, &header, &json!({"email": "ann", "exp": 1}))), 401);
    for email in ["zoe\0", "zoe\n", " zoe", "zoe ", "\u{3000}", "*"] {
        let claims = json!({"email": email, "exp": 4_000_000_000_u64});
        assert_eq!(with(&jwt(SECRET, &header, &claims)), 401, "{email:?}");
    }
    let bob = token(&mut client, "bob", "phone");
    assert_eq!(with(&bob), 200, "tokens of the database count as well");
    assert_eq!(stored(&mut client, "ann", "s").len(), 2);
    assert_eq!(stored(&mut client, "bob", "s").len(), 2);
    assert!(upstream.requests().iter().all(|request| !format!("{request:?}").contains(&good)));
}

/// Keys of a service that signs with RS256: the private one in a file, the public one as PEM, and as JWKS.
struct Keys {
    files: Certificates,
    public: String,
    jwks: String,
}

impl Keys {
    fn new() -> Self {
        const JWKS: &str = "import base64, json, sys\n\
                            n = bytes.fromhex(sys.argv[1].split('=')[1])\n\
                            n = base64.urlsafe_b64encode(n).rstrip(b'=').decode()\n\
                            print(json.dumps({'keys': [{'kty': 'RSA', 'kid': 'k1', 'n': n, 'e': 'AQAB'}]}))";
        let files = Certificates::new();
        files.openssl("genrsa -out rsa.key 2048");
        files.openssl("rsa -in rsa.key -pubout -out rsa.pem");
        let modulus = files.openssl("rsa -in rsa.key -noout -modulus");
        let jwks = python(JWKS, &[modulus.trim()]);
        let public = std::fs::read_to_string(files.path("rsa.pem")).unwrap();
        Self { files, public, jwks }
    }

    /// A token that the private key signs, whatever its header says.
    fn sign(&self, header: &Json, claims: &Json) -> String {
        const SCRIPT: &str = "import base64, subprocess, sys\n\
                              part = lambda data: base64.urlsafe_b64encode(data).rstrip(b'=').decode()\n\
                              text = '.'.join(part(data.encode()) for data in sys.argv[2:])\n\
                              sign = ['openssl', 'dgst', '-sha256', '-sign', sys.argv[1]]\n\
                              signed = subprocess.run(sign, input=text.encode(), stdout=subprocess.PIPE, check=True)\n\
                              print(text + '.' + part(signed.stdout))";
        python(SCRIPT, &[&self.files.path("rsa.key"), &header.to_string(), &claims.to_string()])
    }
}

#[test]
fn a_public_key_is_no_secret_and_none_is_no_algorithm() {
    let keys = Keys::new();
    let file = keys.files.path("keys.json");
    std::fs::write(&file, &keys.jwks).unwrap();
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = with_tokens("jwts_keys", &upstream, &["--jwt-keys-file", &file]);
    let claims = json!({"sub": "ann", "exp": 4_000_000_000_u64});
    let with = |token: &str| {
        let headers = [("authorization", &*bearer(token))];
        chat(&gateway, &headers, &says("s", "Hello.")).status
    };
    let rs256 = json!({"alg": "RS256", "kid": "k1"});
    let good = keys.sign(&rs256, &claims);
    assert_eq!(with(&good), 200);
    let (text, signature) = good.rsplit_once('.').unwrap();
    let hs256 = json!({"alg": "HS256", "kid": "k1"});
    let public = [keys.public.as_str(), keys.public.trim(), &keys.jwks, ""];
    let mut wrong: Vec<String> = public.iter().map(|secret| jwt(secret, &hs256, &claims)).collect();
    wrong.extend(public.iter().map(|secret| jwt(secret, &rs256, &claims)));
    for algorithm in ["none", "None", "NONE", "HS256", "RS512", "ES256"] {
        wrong.push(keys.sign(&json!({"alg": algorithm, "kid": "k1"}), &claims));
    }
    let none = jwt("", &json!({"alg": "none"}), &claims);
    wrong.push(format!("{}.", none.rsplit_once('.').unwrap().0));
    wrong.push(format!("{text}."));
    // The claims of another, with the signature of these; a key of one's own in the header; an address of one.
    let other = keys.sign(&rs256, &json!({"sub": "bob", "exp": 4_000_000_000_u64}));
    wrong.push(format!("{}.{signature}", other.rsplit_once('.').unwrap().0));
    let attacker = Keys::new();
    let jwk: Json = attacker.jwks.parse().unwrap();
    wrong.push(attacker.sign(&rs256, &claims));
    wrong.push(attacker.sign(&json!({"alg": "RS256", "jwk": jwk["keys"][0]}), &claims));
    wrong.push(attacker.sign(&json!({"alg": "RS256", "jku": upstream.url()}), &claims));
    wrong.push(
        attacker.sign(&json!({"alg": "RS256", "kid": attacker.files.path("keys.json")}), &claims),
    );
    // Fewer than are guessed before an address has to wait.
    assert!(wrong.len() < 25, "{}", wrong.len());
    for token in &wrong {
        assert_eq!(with(token), 401, "{token}");
    }
    assert_eq!(with(&good), 200, "the right one still is");
    assert_eq!(stored(&mut client, "bob", "s"), Vec::<String>::new());
    assert_eq!(upstream.requests().iter().filter(|request| request.method == "POST").count(), 2);
}

/// What Supabase, Auth0 and others sign with beside RSA.
#[test]
fn keys_of_elliptic_curves_count_too() {
    const SCRIPT: &str = "import base64, json, subprocess, sys\n\
        part = lambda data: base64.urlsafe_b64encode(data).rstrip(b'=').decode()\n\
        openssl = lambda arguments, **given: subprocess.run(['openssl', *arguments], stdout=subprocess.PIPE, check=True, **given).stdout\n\
        kind, key, claims = sys.argv[1:]\n\
        point = openssl(['pkey', '-in', key, '-pubout', '-outform', 'DER'])\n\
        text = part(json.dumps({'alg': kind}).encode()) + '.' + part(claims.encode())\n\
        open(key + '.text', 'w').write(text)\n\
        if kind == 'EdDSA':\n\
        \x20   described = {'kty': 'OKP', 'crv': 'Ed25519', 'x': part(point[-32:])}\n\
        \x20   signature = openssl(['pkeyutl', '-sign', '-rawin', '-inkey', key, '-in', key + '.text'])\n\
        else:\n\
        \x20   described = {'kty': 'EC', 'crv': 'P-256', 'x': part(point[-64:-32]), 'y': part(point[-32:])}\n\
        \x20   der = openssl(['dgst', '-sha256', '-sign', key, key + '.text'])\n\
        \x20   numbers, at = [], 2\n\
        \x20   for _ in range(2):\n\
        \x20       length = der[at + 1]\n\
        \x20       numbers.append(int.from_bytes(der[at + 2:at + 2 + length], 'big'))\n\
        \x20       at += 2 + length\n\
        \x20   signature = b''.join(number.to_bytes(32, 'big') for number in numbers)\n\
        print(json.dumps({'keys': [described]}))\n\
        print(text + '.' + part(signature))";
    let files = Certificates::new();
    files.openssl("genpkey -algorithm ed25519 -out EdDSA.key");
    files.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ES256.key");
    let claims = json!({"sub": "ann", "exp": 4_000_000_000_u64}).to_string();
    let upstream = Upstream::saying("Yes.");
    let signed = ["EdDSA", "ES256"].map(|kind| {
        let printed = python(SCRIPT, &[kind, &files.path(&format!("{kind}.key")), &claims]);
        let (keys, token) = printed.split_once('\n').expect("two lines");
        (kind, keys.to_owned(), token.to_owned())
    });
    for (kind, keys, token) in &signed {
        let file = files.path(&format!("{kind}.json"));
        std::fs::write(&file, keys).unwrap();
        let database = format!("jwts_{}", kind.to_lowercase());
        let (gateway, _client) = with_tokens(&database, &upstream, &["--jwt-keys-file", &file]);
        for (other, _, token) in &signed {
            let headers = [("authorization", &*bearer(token))];
            let status = chat(&gateway, &headers, &says("s", "Hello.")).status;
            assert_eq!(
                status,
                if other == kind { 200 } else { 401 },
                "{other} with a key of {kind}"
            );
        }
        let changed = token.replacen('.', ".e", 1);
        let headers = [("authorization", &*bearer(&changed))];
        assert_eq!(chat(&gateway, &headers, &says("s", "Hello.")).status, 401);
    }
}
