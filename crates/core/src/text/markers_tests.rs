//! Tests of the markers: labelled sentences for detection, then spelling and merging.

use proptest::prelude::*;

use super::*;
use crate::text::language::Language;

fn detect(text: &str) -> Vec<&'static str> {
    Language::english().markers(text)
}

/// Sentences with the markers that a person gave them.
const LABELLED: &[(&str, &[&str])] = &[
    // Decisions.
    ("Decision: We'll use React for the frontend", &["decision"]),
    ("We decided to keep the monolith for another year.", &["decision"]),
    ("After a long call we have decided against Kubernetes.", &["decision"]),
    ("Let's use PostgreSQL for the database", &["decision"]),
    ("I’ve decided I'm quitting my job in June.", &["decision"]),
    ("The team agreed on weekly releases.", &["decision"]),
    ("We chose Rust because of its memory safety.", &["decision"]),
    ("They settled on the blue logo.", &["decision"]),
    ("OK, we'll go with option B then.", &["decision"]),
    ("We're going with FastAPI for the API layer.", &["decision"]),
    ("She opted for the cheaper plan.", &["decision"]),
    ("I finally made up my mind about the flat in Leipzig.", &["decision"]),
    ("**Decision:** ship on Thursday", &["decision"]),
    ("We've switched to pnpm last week.", &["decision"]),
    ("My wife and I made the decision to move to Lisbon.", &["decision"]),
    ("Going forward the primary store will be DynamoDB.", &["decision"]),
    // Constraints.
    ("Important: Never use eval() in this codebase", &["constraint"]),
    ("The service must not call external APIs.", &["constraint"]),
    ("You MUST NEVER log the access token.", &["constraint"]),
    ("Constraint: the budget is 5000 euros.", &["constraint"]),
    ("Responses mustn't take longer than 200 ms.", &["constraint"]),
    ("Please don't deploy on Fridays.", &["constraint"]),
    ("Do not commit secrets to the repository.", &["constraint"]),
    ("It must support Python 3.8.", &["constraint"]),
    ("The image has to fit in 512 MB of memory.", &["constraint"]),
    ("Third-party cookies are not allowed.", &["constraint"]),
    ("Root access is strictly forbidden on these hosts.", &["constraint"]),
    ("We can only use open-source libraries.", &["constraint"]),
    ("I'm allergic to peanuts.", &["constraint"]),
    ("Always answer in French, please.", &["constraint"]),
    ("Under no circumstances should the raw data leave the cluster.", &["constraint"]),
    ("Our budget is 2000 dollars for the whole trip.", &["constraint"]),
    ("All passwords must be encrypted at rest.", &["constraint"]),
    ("Uploads cannot exceed 10 MB.", &["constraint"]),
    ("Send me the report no later than Tuesday.", &["constraint"]),
    ("I'm vegetarian, so nothing with meat.", &["constraint"]),
    ("The manual said \"you must not open the lid\".", &["constraint"]),
    ("We need at least three replicas at all times.", &["constraint"]),
    // Failures.
    ("The migration failed because of a missing column.", &["failure"]),
    ("Failed: could not resolve host", &["failure"]),
    ("Error: connection refused", &["failure"]),
    ("I tried the retry decorator but it didn't work.", &["failure"]),
    ("The worker crashed after two hours.", &["failure"]),
    ("Switching the allocator caused a regression.", &["failure"]),
    ("The request timed out twice.", &["failure"]),
    ("We ran out of memory while indexing.", &["failure"]),
    ("The login page is not working since the update.", &["failure"]),
    ("It threw an exception on the second call.", &["failure"]),
    ("That approach was a dead end.", &["failure"]),
    ("My first attempt at sourdough was a disaster.", &["failure"]),
    ("The nightly build keeps failing.", &["failure"]),
    ("I couldn't get it to work with IPv6.", &["failure"]),
    ("The patch broke the build again.", &["failure"]),
    ("He failed to renew his passport in time.", &["failure"]),
    ("No matter what I do, the printer refuses to print.", &["failure"]),
    // Goals.
    ("Goal: reduce p95 latency to 100 ms", &["goal"]),
    ("My goal is to run a marathon in autumn, can you help me?", &["goal"]),
    ("The objective is a working prototype by May.", &["goal"]),
    ("We aim to halve the cloud bill.", &["goal"]),
    ("I'm trying to build a REST API.", &["goal"]),
    ("I want to learn Spanish before the trip.", &["goal"]),
    ("We're hoping to launch in Q3.", &["goal"]),
    ("Our target is 10,000 users.", &["goal"]),
    ("I'd like to lose five kilos until summer.", &["goal"]),
    ("The plan is to retire at sixty.", &["goal"]),
    ("She is working towards a nursing degree.", &["goal"]),
    ("My dream is to open a bakery.", &["goal"]),
    ("By next year I hope to have paid off the car.", &["goal"]),
    // More than one.
    ("Our goal is zero downtime, so we decided to use blue-green deploys.", &["decision", "goal"]),
    ("The test failed due to the cache; never use it in CI.", &["constraint", "failure"]),
    (
        "Decision: drop MySQL. The upgrade failed twice and we can't afford downtime.",
        &["decision", "constraint", "failure"],
    ),
    // No marker: small talk and plain facts.
    ("Hi there, how are you today?", &[]),
    ("I need help building a REST API", &[]),
    ("The cat slept on the sofa all afternoon.", &[]),
    ("Paris is the capital of France.", &[]),
    ("Thanks, that was really helpful!", &[]),
    ("We went to the beach with the kids last Sunday.", &[]),
    ("My sister lives in Toronto and works as a nurse.", &[]),
    ("The table has twelve columns and two indexes.", &[]),
    ("Here is the output of the command you asked for.", &[]),
    ("PostgreSQL has had JSON support since version 9.2.", &[]),
    ("I love hiking, especially in the Alps.", &[]),
    ("He plays the cello in a local orchestra.", &[]),
    ("See you tomorrow at ten.", &[]),
    ("The recipe needs two eggs and a cup of flour.", &[]),
    ("Our daughter turned six in March.", &[]),
    // No marker: negations.
    ("We have not decided which database to take.", &[]),
    ("We haven't really decided yet.", &[]),
    ("Nothing has been agreed on so far, nobody decided anything.", &[]),
    ("I never used eval.", &[]),
    ("I never use eval anyway.", &[]),
    ("The job has never failed so far.", &[]),
    ("No tests failed on the new branch.", &[]),
    ("There is no goal for this meeting, just coffee.", &[]),
    ("Registration is not required for the tour.", &[]),
    ("I don't want to become a manager.", &[]),
    ("It was not a mistake to come here.", &[]),
    // No marker: questions.
    ("Did we decide on a database?", &[]),
    ("What was the decision about the logo?", &[]),
    ("Has the team agreed on a date?", &[]),
    ("Why must we never use eval?", &[]),
    ("Is the goal to reduce latency?", &[]),
    ("So, is it not allowed to park here?", &[]),
    ("Did the migration fail or was it fine?", &[]),
    ("What's your goal for the weekend?", &[]),
    // No marker: conditions.
    ("If we decided to move, the kids would have to change school.", &[]),
    ("Call me when it doesn't work.", &[]),
    ("If the build fails, the bot posts a message.", &[]),
    ("Once we've agreed on a price, I will send the papers.", &[]),
    ("The deadline for this will be decided later by the board.", &[]),
    // No marker: false friends.
    ("I must notify my landlord about the leak.", &[]),
    ("She now knows the goalkeeper.", &[]),
    ("I'm going with my sister to Rome.", &[]),
    ("Must be nice to have a pool!", &[]),
    ("He scored a goal in the last minute.", &[]),
    ("The second goal was scored by the captain.", &[]),
    ("She had a decided advantage.", &[]),
    ("My husband doesn't work on weekends.", &[]),
    ("I'm not working tomorrow.", &[]),
    ("It must have been hard for her.", &[]),
    ("This is an important point in the book.", &[]),
    ("The failure rate of disks is about one percent a year.", &[]),
    ("I don't use Windows at home.", &[]),
    ("We always use the stairs because the lift is tiny.", &[]),
    ("You never call your mother.", &[]),
    ("The exam was hard, but I did not fail.", &[]),
    ("Indecision is the thief of opportunity.", &[]),
    ("They undecidedly looked at the menu.", &[]),
    ("I want to know more about Vikings.", &[]),
];

/// Share of right ones among the reported markers, and of reported ones among
/// the right markers, with the sentences that went wrong.
#[test]
fn detection_is_precise_and_finds_most() {
    let (mut right, mut reported, mut labelled) = (0, 0, 0);
    let mut wrong = String::new();
    for (sentence, expected) in LABELLED {
        let found = detect(sentence);
        right += found.iter().filter(|marker| expected.contains(marker)).count();
        reported += found.len();
        labelled += expected.len();
        if found != *expected {
            wrong += &format!("\n  {sentence:?}: found {found:?}, labelled {expected:?}");
        }
    }
    let precision = right as f64 / reported as f64;
    let recall = right as f64 / labelled as f64;
    assert!(
        precision >= 0.9 && recall >= 0.8,
        "precision {precision:.3} ({right} of {reported}), recall {recall:.3} ({right} of \
         {labelled}){wrong}"
    );
}

#[test]
fn the_labelled_list_is_large_and_balanced() {
    let unmarked = LABELLED.iter().filter(|(_, markers)| markers.is_empty()).count();
    assert!(LABELLED.len() >= 80);
    assert!((0.4..=0.6).contains(&(unmarked as f64 / LABELLED.len() as f64)));
    for marker in BUILT_IN {
        let examples = LABELLED.iter().filter(|(_, markers)| markers.contains(&marker));
        assert!(examples.count() >= 10, "too few examples of {marker}");
    }
}

#[test]
fn cues_match_whole_words_in_any_case() {
    assert_eq!(detect("WE DECIDED TO WAIT"), ["decision"]);
    assert_eq!(detect("we\ndecided to wait"), ["decision"]);
    assert!(detect("undecided voters").is_empty());
    assert!(detect("the goalkeeper is tall").is_empty());
    assert!(detect("").is_empty());
}

#[test]
fn a_label_counts_even_before_a_question() {
    assert_eq!(detect("Decision: should we ship? Yes."), ["decision"]);
    assert!(detect("Should we have decided earlier?").is_empty());
}

#[test]
fn a_question_does_not_silence_its_neighbours() {
    assert_eq!(detect("Which database? We decided on PostgreSQL."), ["decision"]);
    assert_eq!(detect("Which one?\n\nDecided on Rust"), ["decision"]);
}

#[test]
fn validation_accepts_the_built_in_and_well_formed_custom_markers() {
    for marker in BUILT_IN {
        assert_eq!(validate(marker), Ok(()));
    }
    let longest = format!("custom:{}", "x".repeat(64));
    for marker in ["custom:a", "custom:Q3_plan.v-2", longest.as_str()] {
        assert_eq!(validate(marker), Ok(()), "{marker}");
    }
    let too_long = format!("custom:{}", "x".repeat(65));
    for marker in ["custom:", "custom:a b", "custom:é", "custom:a:b", too_long.as_str()] {
        assert!(matches!(validate(marker), Err(MarkerError::CustomName(_))), "{marker}");
    }
    for marker in ["", "Decision", "decisions", "custom", "Custom:a", " goal"] {
        assert!(matches!(validate(marker), Err(MarkerError::Unknown(_))), "{marker}");
    }
}

#[test]
fn errors_say_what_is_expected_and_stay_short() {
    let error = validate("todo").unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown marker \"todo\": expected decision, constraint, failure, goal, or custom:name"
    );
    assert!(validate(&"é".repeat(100_000)).unwrap_err().to_string().len() < 400);
}

#[test]
fn explicit_markers_win_even_when_there_are_none() {
    let explicit = ["goal", "custom:a", "goal"].map(str::to_owned);
    assert_eq!(merge(Some(&explicit), &["decision"]), ["goal", "custom:a"]);
    assert!(merge(Some(&[]), &["decision"]).is_empty());
    assert_eq!(merge(None, &["decision", "goal"]), ["decision", "goal"]);
}

proptest! {
    #[test]
    fn detection_takes_any_text(text in "\\PC{0,200}") {
        let found = detect(&text);
        prop_assert!(found.iter().all(|marker| BUILT_IN.contains(marker)));
        prop_assert_eq!(detect(&text.clone()), found);
    }

    #[test]
    fn whatever_is_detected_is_valid_and_survives_merging(
        picks in prop::collection::vec(0..LABELLED.len(), 0..6)
    ) {
        let text: String = picks.iter().map(|pick| LABELLED[*pick].0).collect::<Vec<_>>().join("\n\n");
        let merged = merge(None, &detect(&text));
        prop_assert!(merged.iter().all(|marker| validate(marker).is_ok()));
        // Sentences do not take each other's markers away.
        for pick in picks {
            for marker in detect(LABELLED[pick].0) {
                prop_assert!(merged.iter().any(|found| found == marker), "{marker} in {text:?}");
            }
        }
    }
}
