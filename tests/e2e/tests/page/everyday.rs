//! What people do every day, in a real browser: find, correct, forget and take back, without leaving the list; and how
//! many actions that takes.

use crate::{ALLERGY, database, gateway, with_life};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Browser, Client, Gateway, json, wait_until};
use std::cell::Cell;
use std::time::Duration;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const PATIENCE: Duration = Duration::from_secs(60);

fn open(browser: &Browser, gateway: &Gateway, path: &str) {
    browser.open(&format!("http://{}{path}", gateway.address()));
}

fn row(id: &str, what: &str) -> String {
    format!("[id='f-{id}'] {what}")
}

fn holds(client: &mut Client, content: &str) -> bool {
    let sql =
        "SELECT count(*) FROM memory_agent.entries WHERE content = $1 AND state <> 'inactive'";
    value::<i64>(client, sql, &[&content]) == 1
}

fn shown(browser: &Browser) -> i64 {
    let script =
        "return [...document.querySelectorAll('#known .fact')].filter(e => !e.hidden).length";
    browser.run(script).as_i64().unwrap()
}

fn wait_for(browser: &Browser, why: &str, script: &str) {
    wait_until(PATIENCE, why, || browser.run(&format!("return Boolean({script})")) == json!(true));
}

#[test]
fn facts_are_found_as_one_types() {
    let _client = with_life("everyday_find");
    let gateway = gateway("everyday_find", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    browser.wait_for_text("6 facts.");
    assert_eq!(shown(&browser), 6);
    browser.press("/");
    for letter in "hazeln".chars() {
        browser.press(&letter.to_string());
    }
    wait_for(&browser, "the server to search", "location.search === '?q=hazeln'");
    wait_for(
        &browser,
        "part of a word to be found",
        "document.querySelector('#known .text').textContent.includes('hazelnuts')",
    );
    assert_eq!(browser.run("return document.activeElement.id"), "q", "the focus stays");
    let status = "document.querySelector('#count[role=status]').textContent";
    wait_for(&browser, "the count", &format!("{status}.match(/of 6\\./)"));
    browser.press(ESCAPE);
    wait_for(
        &browser,
        "everything again",
        "document.querySelectorAll('#known .fact').length === 6",
    );
    // A choice shows at once what fits it.
    browser.run("const s = document.querySelector('#key'); s.value = 'home'; s.dispatchEvent(new Event('change', {bubbles: true}))");
    browser.wait_for_text("1 fact of 6.");
    assert!(browser.text().contains("Rua das Flores 12"), "{}", browser.text());
    browser.click("#back a");
    browser.wait_for_text("6 facts.");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn facts_are_changed_on_the_spot_and_that_is_undone() {
    let mut client = with_life("everyday_change");
    let gateway = gateway("everyday_change", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    let (old, right) = ("Lena is allergic to hazelnuts.", "Lena is allergic to walnuts.");
    browser.click(&row(ALLERGY, ".edit summary"));
    wait_for(&browser, "the field", "document.activeElement.tagName === 'TEXTAREA'");
    browser.fill(&row(ALLERGY, "textarea"), right);
    browser.click(&row(ALLERGY, ".edit .primary"));
    browser.wait_for_text("Corrected.");
    assert!(holds(&mut client, right) && !holds(&mut client, old));
    assert!(browser.url().ends_with("/ui"), "the list stays: {}", browser.url());
    browser.click("#notice .undo");
    wait_for(
        &browser,
        "the old text",
        &format!(
            "[...document.querySelectorAll('.fact .text a')].some(a => a.textContent === '{old}')"
        ),
    );
    wait_until(PATIENCE, "the undo", || holds(&mut client, old));
    // Escape leaves everything as it is.
    browser.run("[...document.querySelectorAll('.fact .text a')].find(a => a.textContent.includes('hazelnuts')).focus()");
    browser.press("e");
    wait_for(&browser, "the editor", "document.activeElement.tagName === 'TEXTAREA'");
    browser.press(ESCAPE);
    wait_for(
        &browser,
        "the editor to close",
        "!document.querySelector('.edit[open]') && document.activeElement.tagName === 'A'",
    );

    let eats = "Ann eats fish but no meat since October 2026.";
    browser.run(&format!("[...document.querySelectorAll('.fact')].find(e => e.textContent.includes('{eats}')).querySelector('[form=forgotten]').click()"));
    browser.wait_for_text("Forgotten.");
    assert!(!holds(&mut client, eats));
    let said = browser.run("return document.activeElement.textContent");
    assert_eq!(said, "Undo", "the way back has the focus");
    browser.press(ENTER);
    browser.wait_for_text("Restored.");
    assert!(holds(&mut client, eats));

    browser.run("document.querySelectorAll('.pick').forEach((e, n) => n < 2 && e.click())");
    browser.wait_for_text("2 selected");
    browser.click("#selected .primary");
    browser.wait_for_text("2 memories are forgotten.");
    let left: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE kind = 'fact' AND state <> 'inactive'",
        &[],
    );
    assert_eq!(left, 4);
    browser.click("#notice .undo");
    browser.wait_for_text("2 memories are remembered again.");
    assert_eq!(shown(&browser), 6);

    browser.click(".add summary");
    browser.fill("#new", "Ann plays the cello.");
    browser.click(".add .primary");
    browser.wait_for_text("Added.");
    browser.wait_for_text("7 facts.");
    assert!(holds(&mut client, "Ann plays the cello."));
    browser.click("#notice .undo");
    browser.wait_for_text("Forgotten.");
    assert!(!holds(&mut client, "Ann plays the cello."));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_way_back_goes_after_a_while() {
    let _client = with_life("everyday_undo");
    let gateway = gateway("everyday_undo", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    // Time goes by as fast as the test wants.
    browser.run("window.waits = []; const real = setTimeout; \
                 window.setTimeout = (what, ms) => ms >= 5000 ? waits.push([what, ms]) : real(what, ms)");
    browser.click(&row(ALLERGY, "[form=forgotten]"));
    browser.wait_for_text("Forgotten.");
    assert_eq!(browser.run("return waits.map(([, ms]) => ms)"), json!([10_000]));
    browser.run("waits[0][0]()");
    wait_for(&browser, "the notice to go", "!document.querySelector('.toast')");
    // A second look does not say it again.
    open(
        &browser,
        &gateway,
        &browser.url().split_once("/ui").map(|(_, rest)| format!("/ui{rest}")).unwrap(),
    );
    assert!(!browser.text().contains("Forgotten."), "{}", browser.text());
}

#[test]
fn everything_is_done_without_scripts_too() {
    let mut client = with_life("everyday_plain");
    let gateway = gateway("everyday_plain", Some("ann"));
    let browser = Browser::start();
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    open(&browser, &gateway, "/ui");
    browser.fill("#q", "hazelnuts");
    browser.click(".box button");
    browser.wait_for_text("of 6.");
    browser.click(&row(ALLERGY, "[form=forgotten]"));
    browser.wait_for_text("Forgotten.");
    assert!(browser.url().contains("q=hazelnuts"), "the search stays: {}", browser.url());
    browser.click("#notice .undo");
    browser.wait_for_text("Restored.");
    browser.click(&row(ALLERGY, ".edit summary"));
    browser.fill(&row(ALLERGY, "textarea"), "Lena is allergic to nuts.");
    browser.click(&row(ALLERGY, ".edit .primary"));
    browser.wait_for_text("Corrected.");
    browser.click("#notice .undo");
    wait_until(PATIENCE, "the undo", || holds(&mut client, "Lena is allergic to hazelnuts."));
    open(&browser, &gateway, "/ui");
    browser.click(".pick");
    browser.click("#selected .primary");
    browser.wait_for_text("Forgotten.");
}

#[test]
fn keys_lead_through_the_list() {
    let _client = with_life("everyday_keys");
    let gateway = gateway("everyday_keys", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    let at = |browser: &Browser| {
        browser.run("return [...document.querySelectorAll('.fact')].findIndex(e => e.contains(document.activeElement))")
    };
    for (key, place) in [("j", 0), ("j", 1), ("j", 2), ("k", 1)] {
        browser.press(key);
        assert_eq!(at(&browser), place, "{key}");
    }
    browser.press("e");
    browser.press("j");
    let typed = browser.run("return document.activeElement.value.endsWith('j')");
    assert_eq!(typed, true, "in a field, keys are letters");
    browser.press(ESCAPE);
    assert_eq!(at(&browser), 1, "the focus is on the row again");
    browser.click(".more summary");
    browser.press(ESCAPE);
    assert_eq!(browser.run("return document.querySelectorAll('.menu[open]').length"), 0);
}

/// A person at work: each press, click and text is an action.
struct Person<'a>(&'a Browser, Cell<u32>);

impl Person<'_> {
    fn acts(&self) -> &Browser {
        self.1.set(self.1.get() + 1);
        self.0
    }
}

#[test]
fn three_tasks_take_four_actions_at_most() {
    let mut client = with_life("everyday_tasks");
    run(
        &mut client,
        "SELECT memory_add(format('Ann likes the %s of %s.', a, b), infer => false) \
                        FROM unnest('{music,food,light,boats,markets}'::text[]) a, \
                             unnest('{Lisbon,Porto,Hamburg,Faro,Sines,Evora,Braga,Lagos,Tavira}'::text[]) b",
    );
    let gateway = gateway("everyday_tasks", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    // What is known about Lena?
    let person = Person(&browser, Cell::new(0));
    person.acts().press("/");
    person.acts().press("Lena");
    wait_for(
        &browser,
        "both facts",
        "document.querySelectorAll('#known > .facts > .fact').length === 2",
    );
    assert!(person.1.get() <= 4, "find: {}", person.1.get());
    // That is not right any more.
    let person = Person(&browser, Cell::new(0));
    person.acts().click(&row(ALLERGY, ".edit summary"));
    person.acts().fill(&row(ALLERGY, "textarea"), "Lena is allergic to hazelnuts and walnuts.");
    person.acts().click(&row(ALLERGY, ".edit .primary"));
    browser.wait_for_text("Corrected.");
    assert!(person.1.get() <= 4, "correct: {}", person.1.get());
    // Why does the assistant know that?
    let person = Person(&browser, Cell::new(0));
    person.acts().click("nav a[href='/ui/prompt']");
    person.acts().fill("#q", "Which cake can I bake for Lena?");
    person.acts().press(ENTER);
    browser.wait_for_text("in the prompt");
    let because = "It and the message say “Lena”.";
    browser.wait_for_text(because);
    assert!(person.1.get() <= 4, "why in a prompt: {}", person.1.get());
    let person = Person(&browser, Cell::new(0));
    person.acts().click("nav a[href='/ui/search']");
    person.acts().fill("#q", "What is Lena allergic to?");
    person.acts().press(ENTER);
    browser.wait_for_text("Why?");
    person.acts().click(".why summary");
    browser.wait_for_text("Of a hundred memories like this one");
    assert!(person.1.get() <= 4, "why in a search: {}", person.1.get());
}

#[test]
fn times_are_those_of_the_browsers_clock() {
    let _client = with_life("everyday_times");
    let gateway = gateway("everyday_times", Some("ann"));
    let browser = Browser::start();
    browser.devtools("Emulation.setTimezoneOverride", &json!({"timezoneId": "Asia/Tokyo"}));
    let said = "return [...document.querySelectorAll('.turn time')].map(e => [e.textContent, e.dateTime])[0]";
    open(&browser, &gateway, "/ui/session?session=moving");
    assert_eq!(browser.run(said), json!(["2 Mar 2026, 18:12", "2026-03-02T09:12:00Z"]));
    // A time is chosen in that clock, and asked for in UTC.
    open(&browser, &gateway, "/ui?as_of=2026-03-10T12:00");
    browser.wait_for_text("What held on 10 Mar 2026, 21:00");
    assert_eq!(browser.run("return document.querySelector('#as_of').value"), "2026-03-10T21:00");
    browser.run("const f = document.querySelector('#as_of'); f.value = '2026-03-11T08:00'; f.dispatchEvent(new Event('change', {bubbles: true}))");
    wait_for(&browser, "the time in UTC", "location.search.includes('as_of=2026-03-10T23%3A00')");
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    open(&browser, &gateway, "/ui/session?session=moving");
    browser.wait_for_text("2 Mar 2026, 09:12 UTC");
}

#[test]
fn who_is_new_has_three_ways_to_begin() {
    let mut client = database("everyday_new");
    let gateway = gateway("everyday_new", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    browser.wait_for_text("There are three ways to begin.");
    let text = browser.text();
    for part in [
        format!("curl http://{}/v1/chat/completions", gateway.address()),
        format!("memory http://{}/mcp", gateway.address()),
        "Import your conversations".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains("Now"), "there is no time to look at: {text}");
    browser.fill("#new", "Ann plays the cello.");
    browser.click(".add .primary");
    browser.wait_for_text("1 fact.");
    assert!(holds(&mut client, "Ann plays the cello."));
}

#[test]
fn files_are_dropped_looked_into_and_imported() {
    let mut client = database("everyday_import");
    let gateway = gateway("everyday_import", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui/files");
    let drop = "const lines = ['Hello.', 'I keep bees.'].map((content, n) => \
            JSON.stringify({role: 'user', content, session_id: 's', created_at: `2026-01-0${n + 1}T10:00:00Z`})); \
        const dataTransfer = new DataTransfer(); \
        dataTransfer.items.add(new File([lines.join('\\n')], 'said.jsonl')); \
        document.querySelector('.drop').dispatchEvent(new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true}))";
    browser.run(drop);
    browser.wait_for_text("1 conversation, 2 memories, from 1 Jan 2026 to 2 Jan 2026.");
    browser.wait_for_text("Learning facts from them takes about 1 call of a language model");
    let stored = |client: &mut Client| -> i64 {
        value(client, "SELECT count(*) FROM memory_agent.entries", &[])
    };
    assert_eq!(stored(&mut client), 0, "that was only a look");
    browser.click(".import .primary");
    browser.wait_for_text("2 memories are stored, 0 were there already.");
    assert_eq!(stored(&mut client), 2);
    // The form that came with the answer works as the first one did.
    browser.run(drop);
    browser.wait_for_text("1 conversation, 2 memories");
    browser.click(".import .primary");
    browser.wait_for_text("0 memories are stored, 2 were there already.");
    assert_eq!(browser.complaints(), [""; 0]);
}
