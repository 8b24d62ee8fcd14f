//! memory_chat when the LLM fails, in every way it can: the result says so, what the user said is
//! stored, and nothing is stored that nobody said.

use crate::scene::{ANSWER, PATIENCE, Session, faults, said, scene};
use memory_agent_e2e::llm::{Fault, FaultPlan, LlmStub};
use memory_agent_e2e::processes::signal;
use memory_agent_e2e::{Cluster, Json, wait_until};

/// What a fault leads to: the code of a failure, or an answer.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Answer,
    Code(&'static str),
}

fn expected(fault: Fault) -> Expected {
    match fault {
        Fault::TooManyRequests { .. } | Fault::ErrorInside(_) => Expected::Code("unavailable"),
        Fault::Status(_)
        | Fault::ResetBeforeHeaders
        | Fault::ResetInBody
        | Fault::HalfBody
        | Fault::GarbageBody
        | Fault::ErrorInChoice(_) => Expected::Code("failed"),
        Fault::HugeBody | Fault::EmptyContent => Expected::Code("bad_answer"),
        // Whatever a model says to an application is an answer.
        _ => Expected::Answer,
    }
}

/// The failure in a result, which has nothing but that and the memories.
#[track_caller]
pub fn failure(document: &Json) -> (&str, &str) {
    let keys: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["error", "memory_hits"], "{document}");
    let error = &document["error"];
    assert_eq!(error.as_object().unwrap().len(), 2, "{document}");
    (error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

#[test]
fn every_fault_is_part_of_the_result_and_loses_nothing() {
    let mut session = scene().session("failures_faults");
    for (number, fault) in faults().into_iter().enumerate() {
        let place = format!("fault {number}");
        session.know(&place, "Anna lives in Lisbon.");
        let document =
            session.chat(&said("Where does Anna live?"), &format!("'{place}', model => '{place}'"));
        assert_eq!(document["memory_hits"][0]["content"], "Anna lives in Lisbon.", "{fault:?}");
        let found = match document.get("error") {
            None => Expected::Answer,
            Some(_) => {
                let (code, message) = failure(&document);
                assert!(
                    !message.is_empty() && !message.contains("127.0.0.1"),
                    "{fault:?}: {message}"
                );
                let known = ["unavailable", "failed", "refused", "bad_answer"];
                Expected::Code(known.into_iter().find(|known| *known == code).expect(code))
            }
        };
        assert_eq!(found, expected(fault), "{fault:?}: {document}");
        let turns = session.turns(&place);
        assert_eq!(turns[0], "user: Where does Anna live?", "{fault:?}");
        if found == Expected::Answer {
            let answer = document["choices"][0]["message"]["content"].as_str().unwrap();
            assert_eq!(turns[1..], [format!("assistant: {answer}")], "{fault:?}");
        } else {
            assert_eq!(turns.len(), 1, "{fault:?}: {turns:?}");
        }
        assert_eq!(scene().calls(&place).len(), 1, "{fault:?}: it was asked again");
    }
    assert_eq!(session.recorded().len(), faults().len(), "a call is not on record");
    assert!(session.take_warnings().is_empty());
}

#[test]
fn answers_that_cannot_be_used_are_failures() {
    let mut session = scene().session("failures_answers");
    for (model, code) in [
        ("tools", "bad_answer"),
        ("no choices", "bad_answer"),
        ("thinking on", "bad_answer"),
        ("refusing", "refused"),
        ("filtered", "refused"),
        ("unknown", "unavailable"),
    ] {
        let document = session.chat(&said("Hi"), &format!("'{model}', model => '{model}'"));
        let (found, message) = failure(&document);
        assert_eq!(found, code, "{model}: {message}");
        assert_eq!(session.turns(model), ["user: Hi"]);
    }
    // A name that the endpoint does not know is not asked for again at once.
    let document = session.chat(&said("Hi"), "'unknown', model => 'unknown'");
    assert_eq!(failure(&document).0, "unavailable");
    assert_eq!(scene().calls("unknown").len(), 1);
    let statuses = session.recorded();
    assert_eq!(statuses.iter().filter(|call| *call == "chat refusal").count(), 2, "{statuses:?}");
    assert_eq!(
        statuses.iter().filter(|call| *call == "chat bad answer").count(),
        3,
        "{statuses:?}"
    );
}

/// A cluster of its own whose stub can be spoilt.
pub fn own_scene(settings: &[(&str, &str)]) -> (LlmStub, Cluster) {
    let stub = LlmStub::start(|_: &_| ANSWER);
    let mut builder = Cluster::builder()
        .preload(true)
        .setting("memory_agent.worker", "off")
        .setting("memory_agent.llm_base_url", stub.base_url())
        .setting("memory_agent.llm_model", "stub")
        .setting("memory_agent.llm_timeout", "10s");
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    (stub, builder.start())
}

#[test]
fn an_outage_loses_nothing() {
    let (stub, cluster) = own_scene(&[("memory_agent.llm_timeout", "1s")]);
    let mut session = Session::open(&cluster, "agent");
    stub.set_down(true);
    for number in 0..3 {
        let document = session.chat(&said(&format!("Message {number}.")), "'s'");
        assert_eq!(failure(&document).0, "unavailable");
    }
    assert_eq!(
        session.turns("s"),
        (0..3).map(|n| format!("user: Message {n}.")).collect::<Vec<_>>()
    );
    stub.set_down(false);
    // The endpoint is tried again a little later.
    let mut answered = Json::Null;
    wait_until(PATIENCE, "an answer", || {
        answered = session.chat(&said("Are you back?"), "'back'");
        answered.get("error").is_none()
    });
    assert_eq!(answered["choices"][0]["message"]["content"], ANSWER);

    // The LLM is not the only one that may be gone.
    stub.hold(true);
    let mut waiting = Session::connect(&cluster, "agent");
    let running = std::thread::spawn(move || {
        let document = waiting.chat(&said("Is anybody there?"), "'killed'");
        (waiting, document)
    });
    wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
    let asked = stub.call_count();
    signal(cluster.model_server_pid(), libc::SIGKILL);
    let (mut waiting, document) = running.join().unwrap();
    assert_eq!(failure(&document).0, "unavailable");
    assert_eq!(waiting.turns("killed"), ["user: Is anybody there?"]);
    assert_eq!(stub.call_count(), asked, "an answer that costs money was asked for twice");
    stub.hold(false);
    wait_until(PATIENCE, "the models to be back", || {
        waiting.client.query("SELECT memory_embed('x')", &[]).is_ok()
    });
    // This session's connection is that to the killed server; nothing was asked over it yet.
    let document = session.chat(&said("Are you there?"), "'replaced'");
    assert_eq!(document["choices"][0]["message"]["content"], ANSWER, "{document}");
    // A slow one is not waited for for ever.
    stub.faults(FaultPlan::questions(Fault::Delay(PATIENCE)));
    let document = session.chat(&said("Are you slow?"), "'slow'");
    assert_eq!(failure(&document).0, "failed", "{document}");
    assert_eq!(session.turns("slow"), ["user: Are you slow?"]);
}
