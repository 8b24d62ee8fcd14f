//! Requests whose bodies are compressed.

use crate::http::{Reply, send_bytes};
use crate::upstream::Upstream;
use crate::{for_ann, stored};
use memory_agent_e2e::Gateway;
use std::io::Write;
use std::process::{Command, Stdio};

const BODY: &str =
    r#"{"model":"m","memory_id":"s","messages":[{"role":"user","content":"Hello."}]}"#;

/// What the program zstd makes of `{"input":"…"}` with twelve times "Hello, hello. " in it.
const BY_ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x04\x68\x0d\x01\x00\xd0\x7b\x22\x69\x6e\x70\x75\x74\x22\x3a\x22\x48\x65\x6c\x6c\x6f\x2c\x20\x68\x65\x6c\x6c\x6f\x2e\x20\x22\x7d\x01\x00\x5c\x82\x9a\x63\xbf\x0d\x3f\x69";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, bytes) = (gzip.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = gzip.wait_with_output().unwrap();
    writer.join().unwrap();
    output.stdout
}

/// A frame of zstd: its blocks are this as it is, or with `times` one byte so often.
fn zstd(bytes: &[u8], times: Option<usize>) -> Vec<u8> {
    let length = times.unwrap_or(bytes.len());
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((length as u32).to_le_bytes());
    let mut block = |is_last: bool, kind: u32, size: usize, content: &[u8]| {
        let header = u32::from(is_last) | kind << 1 | (size as u32) << 3;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(content);
    };
    match times {
        None => block(true, 0, bytes.len(), bytes),
        Some(times) => {
            let most = 128 << 10;
            let count = times.div_ceil(most);
            for number in 0..count {
                block(number + 1 == count, 1, most.min(times - number * most), &bytes[..1]);
            }
        }
    }
    frame
}

fn ask(gateway: &Gateway, path: &str, coding: &str, body: &[u8]) -> Reply {
    let headers = [("content-encoding", coding), ("content-type", "application/json")];
    send_bytes(gateway.address(), "POST", path, &headers, body).unwrap()
}

#[test]
fn a_compressed_body_is_read_and_goes_upstream_plain() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = for_ann("codings_read", &upstream, &[]);
    let two: Vec<u8> =
        [&BODY[..20], &BODY[20..]].iter().flat_map(|part| zstd(part.as_bytes(), None)).collect();
    for (coding, body) in [
        ("gzip", gzip(BODY.as_bytes())),
        ("x-gzip", gzip(BODY.as_bytes())),
        ("zstd", zstd(BODY.as_bytes(), None)),
        ("ZSTD", two),
        ("identity", BODY.as_bytes().to_vec()),
    ] {
        assert_eq!(ask(&gateway, "/v1/chat/completions", coding, &body).status, 200, "{coding}");
        let sent = upstream.last();
        assert_eq!(sent.header("content-encoding"), None);
        assert_eq!(sent.header("content-length"), Some(&*sent.body.len().to_string()));
        assert!(sent.body.ends_with(r#"Hello."}]}"#), "{}", sent.body);
    }
    assert_eq!(stored(&mut client, "ann", "s")[0], "user: Hello.");
    let repeated = format!("{{\"input\":\"{}\"}}", "Hello, hello. ".repeat(12));
    assert_eq!(ask(&gateway, "/v1/embeddings", "zstd", BY_ZSTD).status, 200);
    assert_eq!(upstream.last().body, repeated);
    let embeddings = ask(&gateway, "/v1/embeddings", "gzip", &gzip(b"{\"input\":\"x\"}"));
    assert_eq!((embeddings.status, upstream.last().body.as_str()), (200, "{\"input\":\"x\"}"));
}

#[test]
fn what_cannot_be_decoded_is_refused() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, _client) = for_ann("codings_refused", &upstream, &["--max-body", "1000000"]);
    let status = |coding: &str, body: &[u8]| {
        let mut reply = ask(&gateway, "/v1/chat/completions", coding, body);
        (reply.status, reply.json()["error"]["message"].as_str().unwrap().to_owned())
    };
    let (code, message) = status("br", b"x");
    assert!(code == 415 && message.contains("\"br\""), "{code} {message}");
    assert_eq!(status("gzip, zstd", b"x").0, 415);
    for (coding, body) in [
        ("gzip", BODY.as_bytes().to_vec()),
        ("gzip", gzip(BODY.as_bytes())[..30].to_vec()),
        ("zstd", BODY.as_bytes().to_vec()),
        ("zstd", zstd(BODY.as_bytes(), None)[..30].to_vec()),
    ] {
        let (code, message) = status(coding, &body);
        assert!(code == 400 && message.contains(coding), "{code} {message}");
    }
    // What is small may be large.
    assert_eq!(status("gzip", &gzip(&vec![b' '; 1_000_001])).0, 413);
    assert_eq!(status("zstd", &zstd(b" ", Some(1_000_001))).0, 413);
    // The frame asks for a window of 1 GiB.
    assert_eq!(status("zstd", b"\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00").0, 400);
    assert_eq!(upstream.requests().len(), 0);
}
