use super::*;

/// What a file becomes: of a memory its text, of other things what is said of them, each after its place.
fn read(text: &str, format: Option<Format>) -> (Vec<String>, Result<(), String>) {
    let mut pieces = Vec::new();
    let take = |Piece { place, what }| {
        let what = match what {
            What::Memory(ready) => ready.file.rsplit("---\n").next().unwrap().trim().to_owned(),
            What::Wrong(problem) => format!("! {problem}"),
            What::LeftOut(kind) => format!("- {kind}"),
        };
        pieces.push(format!("{place}: {what}"));
        true
    };
    let reading = Reading { format, from_user: &mut None, is_given: false, extracts: false, take };
    let outcome = reading.read(text.as_bytes());
    (pieces, outcome)
}

#[test]
fn the_format_is_seen() {
    for (text, expected) in [
        ("[{\"mapping\"", false),
        ("{\"results\": [", false),
        ("{\n  \"results\"", false),
        ("{\"role\": \"user\"}", true),
    ] {
        assert_eq!(is_lines(text), expected, "{text}");
    }
    for (line, content) in [
        (r#"{"role": "user", "content": "A"}"#, "A"),
        (
            r#"{"mapping": {"1": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["B"]}}}}, "id": "c", "current_node": "1"}"#,
            "B",
        ),
        (r#"{"memory": "C", "id": "1"}"#, "C"),
        (
            r#"{"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"}"#,
            "Ann works at Acme",
        ),
        (
            r#"{"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": "D"}}"#,
            "D",
        ),
    ] {
        assert_eq!(read(line, None), (vec![format!("line 1: {content}")], Ok(())), "{line}");
    }
}

#[test]
fn what_has_no_known_format_is_refused_as_a_whole() {
    for (text, problem) in [
        ("Date,Text\n1,Hello\n", "it is neither JSON nor JSON lines"),
        ("{\"a\": 1, \"text\": \"Hello\"}\n{\"a\": 2}", "the first one has the keys a, text"),
        ("[{\"a\": 1}, {\"a\": 2}]", "say with --format what the file is"),
        ("[1, 2]", "say with --format what the file is"),
    ] {
        let (pieces, outcome) = read(text, None);
        assert_eq!(pieces, Vec::<String>::new(), "{text}");
        let said = outcome.unwrap_err();
        assert!(said.contains(problem), "{said}");
    }
    assert_eq!(read(" \n", None), (Vec::new(), Ok(())));
}

#[test]
fn messages_of_the_same_time_are_told_apart() {
    let line = |minute: u32, role: &str, content: &str, session: &str| {
        format!(
            r#"{{"role": "{role}", "content": "{content}", "session_id": "{session}", "created_at": "2026-01-31T10:0{minute}:00Z"}}"#
        )
    };
    // Others stand between them.
    let lines = [
        line(0, "user", "Yes.", "s"),
        line(5, "assistant", "Fine.", "s"),
        line(0, "user", "No.", "s"),
        line(0, "assistant", "Yes.", "s"),
        line(0, "user", "Yes.", "t"),
        line(4, "user", "Yes.", "s"),
        // The same once more, as where two exports overlap.
        line(0, "user", "Yes.", "s"),
    ];
    let mut ids = Vec::new();
    let take = |Piece { what, .. }| {
        let What::Memory(ready) = what else { panic!("a memory") };
        ids.push(ready.id);
        true
    };
    let reading =
        Reading { format: None, from_user: &mut None, is_given: false, extracts: false, take };
    reading.read(lines.join("\n").as_bytes()).unwrap();
    let last = ids.pop();
    assert_eq!(last, ids.first().copied());
    let distinct: std::collections::HashSet<Uuid> = ids.iter().copied().collect();
    assert_eq!((ids.len(), distinct.len()), (6, 6));
}

#[test]
fn bad_lines_do_not_stop_the_rest() {
    let text = "\u{feff}{\"role\": \"user\", \"content\": \"A\"}\n\n{broken\n\
                {\"role\": \"user\", \"content\": 1}\n{\"role\": \"user\", \"content\": \"A\"}";
    let mut pieces = Vec::new();
    let take = |piece: Piece| {
        let ready = match piece.what {
            What::Memory(ready) => Some(ready),
            _ => None,
        };
        pieces.push((piece.place, ready));
        true
    };
    let (from_user, is_given) = (&mut None, false);
    let reading = Reading { format: None, from_user, is_given, extracts: false, take };
    assert_eq!(reading.read(text.as_bytes()), Ok(()));
    let good: Vec<(&str, bool)> =
        pieces.iter().map(|(place, ready)| (&**place, ready.is_some())).collect();
    assert_eq!(good, [("line 1", true), ("line 3", false), ("line 4", false), ("line 5", true)]);
    assert_ne!(pieces[0].1, pieces[3].1, "said twice");
}

#[test]
fn users_of_mem0_are_not_mixed() {
    let text = r#"{"count": 2, "results": [{"id": "1", "memory": "A", "user_id": "x"},
                                          {"id": "2", "memory": "B", "user_id": "y"}]}"#;
    let (pieces, outcome) = read(text, Some(Format::Mem0));
    assert_eq!(outcome, Ok(()));
    assert_eq!(pieces[0], "entry 1, message 1: A");
    assert!(pieces[1].starts_with("entry 2: ! ") && pieces[1].contains("--from-user"));
}

#[test]
fn what_is_cut_off_is_said() {
    let (pieces, outcome) = read(r#"[{"memory": "A", "id": "1"}, {"memory": "#, None);
    assert!(pieces.len() == 1 && outcome.is_err(), "{outcome:?}");
}
