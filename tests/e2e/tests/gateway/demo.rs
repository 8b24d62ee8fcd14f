//! What stands in for a language model in `make demo` says what one would have read.

use crate::http::{chat, says, says_streaming};
use crate::{NEVER_LATE, PATIENCE, ROLE, cluster, database, stored};
use memory_agent_e2e::{Gateway, retry_until};
use std::path::Path;
use std::process::{Child, Command};

struct Upstream(Child);

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_answer_shows_what_is_remembered() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo_upstream.py");
    let file = std::env::temp_dir().join(format!("memory_agent_demo.{}", std::process::id()));
    let _upstream =
        Upstream(Command::new("/usr/bin/python3").arg(script).arg(&file).spawn().unwrap());
    let url =
        retry_until(PATIENCE, "the upstream's address", || std::fs::read_to_string(&file).ok());
    std::fs::remove_file(&file).unwrap();
    let mut client = database(cluster(), "demo");
    let to = Gateway::database(cluster(), ROLE, "demo");
    let arguments =
        ["--database", &to, "--upstream", &url, "--user", "maria", "--patience", NEVER_LATE];
    let gateway = Gateway::start(&arguments);
    assert_eq!(chat(&gateway, &[], &says("s", "Lena is allergic to hazelnuts.")).status, 200);
    let mut reply = chat(&gateway, &[], &says("s", "What is Lena allergic to?"));
    let answer = reply.json();
    let answer = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        answer.contains("hazelnuts") && answer.ends_with("What is Lena allergic to?"),
        "{answer}"
    );
    let mut reply = chat(&gateway, &[], &says_streaming("s", "Who is allergic?"));
    let answer = reply.rest().unwrap();
    assert!(answer.contains("hazelnuts") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
    assert_eq!(stored(&mut client, "maria", "s").len(), 6);
}
