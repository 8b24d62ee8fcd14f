use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

/// Letters and digits as in a key.
fn random(length: usize) -> String {
    "q7Rt2Yx9Lm4Kp8Zs1Wd6".chars().cycle().take(length).collect()
}

fn clean(text: &str) -> (String, Value) {
    let mut counts = Counts::default();
    let text = redacted(text, false, &mut counts).into_owned();
    (text, counts.to_json())
}

#[track_caller]
fn assert_redacted(secret: &str, form: Form) {
    let form = form.as_str();
    for (before, after) in [
        ("", ""),
        ("My key: ", "."),
        ("{\"key\": \"", "\"}"),
        ("密钥是", "。"),
        ("x='a\\n", "\\n'"),
    ] {
        let expected = (format!("{before}[redacted: {form}]{after}"), json!({ form: 1 }));
        assert_eq!(clean(&format!("{before}{secret}{after}")), expected);
    }
}

#[track_caller]
fn assert_kept(text: &str) {
    assert_eq!(clean(text), (text.to_owned(), json!({})));
}

fn jwt() -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (header, claims) = (json!({"alg": "HS256", "typ": "JWT"}), json!({"sub": "ann", "n": 1}));
    format!("{}.{}.{}", part(&header), part(&claims), random(43))
}

#[test]
fn keys_and_tokens_are_found_by_their_prefix() {
    for prefix in ["sk-", "sk-proj-", "sk-ant-api03-", "sk-or-v1-"] {
        assert_redacted(&format!("{prefix}{}", random(48)), Form::ApiKey);
    }
    for prefix in ["AKIA", "ASIA"] {
        assert_redacted(&format!("{prefix}{}", "Q7RT2YX9LM4KP8ZS"), Form::AwsKey);
    }
    for (prefix, length) in [("ghp_", 36), ("gho_", 36), ("ghs_", 36), ("github_pat_", 82)] {
        assert_redacted(&format!("{prefix}{}", random(length)), Form::GithubToken);
    }
    for prefix in ["xoxb-123456789012-", "xoxp-1-", "xoxe.xoxp-1-"] {
        assert_redacted(&format!("{prefix}{}", random(24)), Form::SlackToken);
    }
    assert_redacted(&jwt(), Form::Jwt);
}

#[test]
fn words_and_ids_are_no_secrets() {
    for text in [
        "I risk-averse myself; sk-learn and sk-some-long-hyphenated-name-of-a-branch are names.",
        "sk-short1",
        "The AKIA prefix, AKIAI44QH8DHB, MAKIAQ7RT2YX9LM4KP8ZS and akiaq7rt2yx9lm4kp8zs.",
        "ghp_short, ghp_ and tough_questions_that_have_more_than_thirty_six_letters",
        "xoxo-hugs-and-kisses-to-all-of-you",
        "eyJust a word. eyJhbGciOiJub25l is half a token, eyJhYmM.eyJhYmNkZWZnaGk.eyJhYmNkZWZnaGk none.",
        "0190a7c4-7e4b-7c3a-9b1e-4d5f6a7b8c9d",
        "d41d8cd98f00b204e9800998ecf8427e",
        "-----BEGIN PUBLIC KEY-----\nMFww\n-----END PUBLIC KEY-----",
        "A key begins with -----BEGIN PRIVATE KEY----- and some lines.",
        "",
    ] {
        assert_kept(text);
    }
}

#[test]
fn private_keys_are_found_with_their_block() {
    let lines: String = (0..4).map(|_| format!("{}\n", random(64))).collect();
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    {
        let block = format!("-----BEGIN {label}-----\n{lines}-----END {label}-----");
        assert_redacted(&block, Form::PrivateKey);
        assert_redacted(&block.replace('\n', "\\n"), Form::PrivateKey);
        let cut = format!("Here: -----BEGIN {label}-----\n{}", lines.trim_end());
        assert_eq!(clean(&cut).0, "Here: [redacted: private key]");
    }
    let (one, two) = ("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----");
    let text = format!("{one}{lines}{two} and {one}{lines}{two}, {one}");
    let expected = format!("[redacted: private key] and [redacted: private key], {one}");
    assert_eq!(clean(&text), (expected, json!({"private key": 2})));
}

#[test]
fn cards_are_found_by_prefix_and_check_digit() {
    for number in [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4222222222222",
        "5555 5555 5555 4444",
        "2223003122003222",
        "378282246310005",
        "3782 822463 10005",
        "6011111111111117",
        "3530111333300000",
        "30569309025904",
        "3056 930902 5904",
        "6200000000000005",
    ] {
        assert_redacted(number, Form::Card);
    }
    assert_eq!(clean("4111 1111 1111 1111 12/26 123").0, "[redacted: card] 12/26 123");
    assert_eq!(clean("1. 4111 1111 1111 1111").0, "1. [redacted: card]");
    for text in [
        "4111111111111112",
        "4111 1111 1111 1112",
        "1111111111111117",
        "4111 1111-1111 1111",
        "order A4111111111111111, 4111111111111111b, 0x4111111111111111",
        "+4111111111111111",
        "3.4111111111111111 and 4111111111111111.5",
        "DE44 5500 0000 0000 0004 31",
        "4111 1111 1111 1111 1111 1111",
        "41111111-1111-1111-1111-111111111111",
        "1764367200000000 and 20261128120000",
        "Call 030 1234567 or 4111 1111.",
    ] {
        assert_kept(text);
    }
}

#[test]
fn what_is_said_to_be_a_password_is_taken_on_request() {
    let said = |text: &str| {
        let mut counts = Counts::default();
        let clean = redacted(text, true, &mut counts).into_owned();
        (clean, counts.to_json()["password"].as_u64().unwrap_or(0))
    };
    for (text, expected) in [
        ("My password is hunter2.", "My password is [redacted: password]."),
        ("Password: \"tr0ub4dor&3\"", "Password: \"[redacted: password]\""),
        ("PIN = 4711, thanks", "PIN = [redacted: password], thanks"),
        ("Mein Passwort lautet geheim!", "Mein Passwort lautet [redacted: password]!"),
        ("La contraseña es abc", "La contraseña es [redacted: password]"),
    ] {
        assert_kept(text);
        assert_eq!(said(text), (expected.to_owned(), 1));
        assert_eq!(said(expected).1, 0, "{expected}");
    }
    for text in [
        "The password is wrong.",
        "Torrey Pines State Reserve",
        "Long passwords:\n\nThey help.",
        "I forgot my password.",
        "a pin is not a needle",
        "pin:",
    ] {
        assert_eq!(said(text), (text.to_owned(), 0));
    }
    let key = format!("password: sk-{}", random(40));
    assert_eq!(said(&key), ("password: [redacted: api key]".to_owned(), 0));
}

#[test]
fn json_stays_json() {
    let key = format!("sk-{}", random(40));
    let written = format!(
        r#"{{"n": 1.10, "big": 1e400, "card": 4111111111111111, "a\"b": ["{key}", "é\n{key}"], "s": "4111111111111111"}}"#
    );
    let mut counts = Counts::default();
    let clean = redacted_json(&written, false, &mut counts);
    assert_eq!(
        clean,
        r#"{"n": 1.10, "big": 1e400, "card": 4111111111111111, "a\"b": ["[redacted: api key]", "é\n[redacted: api key]"], "s": "[redacted: card]"}"#
    );
    assert_eq!(counts.to_json(), json!({"api key": 2, "card": 1}));
    assert_eq!(counts.names(), "api key, card");
    for kept in ["{}", r#"{"a": "b\\"}"#, r#"{"a": "#, "\"", "\"\\"] {
        assert!(matches!(redacted_json(kept, true, &mut counts), Cow::Borrowed(_)), "{kept}");
    }
}

#[test]
fn counts_go_with_their_text() {
    let counted = r#"{"n": 1.10, "redacted": {"api key": 2}, "a\"b": "c"}"#;
    assert_eq!(uncounted(counted), r#"{"n": 1.10, "a\"b": "c"}"#);
    for kept in [
        "{}",
        r#"{"redacted": true}"#,
        r#"{"redacted": {"other": 1}}"#,
        "[",
        r#"{"x": {"redacted": {}}}"#,
    ] {
        assert_eq!(uncounted(kept), kept);
    }
}

#[test]
fn a_text_is_known_in_every_form_it_may_be_stored_in() {
    assert_eq!(stored_forms("Hello."), ["Hello."]);
    let text = format!("password: hunter2, key: sk-{}", random(40));
    let forms = [
        text.as_str(),
        "password: hunter2, key: [redacted: api key]",
        "password: [redacted: password], key: [redacted: api key]",
    ];
    assert_eq!(stored_forms(&text), forms);
}

proptest! {
    #[test]
    fn what_was_redacted_stays(
        parts in prop::collection::vec(
            prop_oneof![
                Just("sk-q7Rt2Yx9Lm4Kp8Zs1Wd6q7Rt".to_owned()),
                Just("4111 1111 1111 1111".to_owned()),
                Just("-----BEGIN PRIVATE KEY-----".to_owned()),
                Just("-----END PRIVATE KEY-----".to_owned()),
                Just("password is ".to_owned()),
                Just("eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9".to_owned()),
                "[ .,:\\-\n\"\\\\]{0,3}",
                "[0-9 -]{1,24}",
                "\\PC{0,8}",
            ],
            0..12,
        ),
        phrases in any::<bool>(),
    ) {
        let mut counts = Counts::default();
        let once = redacted(&parts.concat(), phrases, &mut counts).into_owned();
        let mut again = Counts::default();
        prop_assert_eq!(redacted(&once, phrases, &mut again).into_owned(), once);
        prop_assert!(again.is_empty());
        let json = Value::from(parts).to_string();
        let clean = redacted_json(&json, phrases, &mut counts);
        prop_assert!(serde_json::from_str::<Vec<String>>(&clean).is_ok());
    }
}
