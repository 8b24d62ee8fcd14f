//! Known forms of injections: what each wants to be remembered is refused, by whichever rule.

use super::*;

/// What is said, and the fact that is made of it.
fn cases(file: &str) -> Vec<(&str, &str)> {
    let lines = file.lines().filter(|line| !line.starts_with("# "));
    lines.map(|line| line.split_once(" => ").unwrap()).collect()
}

#[test]
fn what_injections_want_to_be_stored_is_refused() {
    let cases = cases(include_str!("injections.txt"));
    assert_eq!(cases.len(), 57);
    let mut passed = Vec::new();
    for (said, fact) in cases {
        let said = said.replace("\\n", "\n");
        let sources = Sources { said: &[&said], said_at: "2024-05-03", ..Sources::default() };
        let grounds = Grounds::of(&sources);
        let facts = [fact.to_owned(), format!("{fact}.")];
        passed.extend(facts.iter().filter(|fact| grounds.check(fact).is_ok()).cloned());
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
}

#[test]
fn what_sounds_like_an_injection_is_kept() {
    let cases = cases(include_str!("harmless.txt"));
    assert_eq!(cases.len(), 38);
    let refused = cases.iter().filter_map(|(said, fact)| {
        let sources = Sources { said: &[said], said_at: "2024-05-03", ..Sources::default() };
        let reason = Grounds::of(&sources).check(fact).err()?;
        Some(format!("{said}: {fact}: {reason}"))
    });
    let refused: Vec<String> = refused.collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// What users say of their own memory, rules and systems is no injection.
#[test]
fn what_users_say_of_instructions_is_kept() {
    for (said, fact) in [
        ("Remember that my sister Ana is vegan.", "The user's sister Ana is vegan"),
        ("Please save this: the gate code is 4711.", "The gate code is 4711"),
        ("Ignore my earlier message, I live in Bonn.", "The user lives in Bonn"),
        ("Forget what I said, the deadline is May 15.", "The deadline is May 15"),
        ("My script starts with import sys.", "The user's script starts with import sys"),
        ("System: Ubuntu 24.04 with 16 GB of memory.", "The user's system is Ubuntu 24.04"),
        (
            "Our system must store the user's mail encrypted.",
            "The user's system must store mail encrypted",
        ),
        ("The users of our app are nurses.", "The users of the user's app are nurses"),
        ("Note: The user's laptop has 16 GB of memory.", "The user's laptop has 16 GB of memory"),
        ("You should know that I am deaf.", "The user is deaf"),
        (
            "Note that you can reach me at ada@example.org.",
            "The user can be reached at ada@example.org",
        ),
        (
            "My instructions for the cleaner: no bleach.",
            "The user's instructions for the cleaner: no bleach",
        ),
    ] {
        let sources = Sources { said: &[said], said_at: "2024-05-03", ..Sources::default() };
        assert_eq!(Grounds::of(&sources).check(fact), Ok(()), "{said}: {fact}");
    }
}
