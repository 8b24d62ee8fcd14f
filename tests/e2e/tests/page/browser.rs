//! The page in a real browser: a visitor signs in, searches, corrects, forgets and erases; with the keyboard
//! alone; by day and by night; over memory that attacks it. With `MEMORY_AGENT_PICTURES` naming a directory,
//! each view is drawn there.

use crate::attacks::{NAME, poisoned, poisoned_paths};
use crate::{ALLERGY, LISBON, gateway, gateway_with_admins, with_life};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Browser, Gateway, json};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const HOME: &str = "\u{e011}";

fn open(browser: &Browser, gateway: &Gateway, path: &str) {
    browser.open(&format!("http://{}{path}", gateway.address()));
}

#[test]
fn somebody_signs_in_and_sets_memory_right() {
    let mut client = with_life("browser_life");
    let token: String = value(&mut client, "SELECT memory_create_token('ann', 'page')", &[]);
    let gateway = gateway("browser_life", None);
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    browser.wait_for_text("With a memory token.");
    for (scheme, is_dark) in [("light", false), ("dark", true)] {
        browser.prefer(scheme);
        assert_readable(&browser, ".login p", is_dark);
        draw(&browser, "login", scheme);
    }
    browser.prefer("light");
    browser.fill("#token", "mat_wrong");
    browser.click("main button");
    browser.wait_for_text("This token is unknown, or has expired.");
    browser.fill("#token", &token);
    browser.click("main button");
    browser.wait_for_text("Ann lives at Rua das Flores 12 in Lisbon.");
    assert_eq!(browser.run("return document.cookie"), "", "no script reads the cookie");
    browser.click("nav a[href='/ui/search']");
    browser.fill("#q", "What is Lena allergic to?");
    browser.click(".box button");
    browser.wait_for_text("Left out");
    browser.click(&format!("a[href='/ui/memory/{ALLERGY}']"));
    browser.wait_for_text("Where it comes from");
    browser.click(".edit summary");
    browser.fill(".edit textarea", "Lena is allergic to hazelnuts and walnuts.");
    browser.click(".edit .primary");
    browser.wait_for_text("Corrected.");
    browser.click(".forget summary");
    browser.fill("#reason", "asked the doctor");
    browser.click(".forget button");
    browser.wait_for_text("Forgotten.");
    let notices = browser.run("return document.querySelectorAll('.note, .toast').length");
    assert_eq!(notices, 1, "one notice says it");
    browser.click("form[action$='/restore'] button");
    browser.wait_for_text("Restored.");
    browser.click("form[action='/ui/erase'] button");
    browser.wait_for_text("What will go");
    browser.fill("#word", "erase");
    browser.click(".confirm button");
    browser.wait_for_text("It is gone for good.");
    browser.click(".who summary");
    browser.click(".who button");
    browser.wait_for_text("With a memory token.");
    let left: i64 = value(
        &mut client,
        "SELECT count(*) FROM memory_agent.entries WHERE content LIKE '%walnuts%' OR id::text = $1",
        &[&ALLERGY],
    );
    assert_eq!(left, 0);
    // The browser writes down that the wrong token was answered with 401.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("/ui/login")), "{complaints:?}");
}

/// Presses Tab until the focus is on what a script finds true.
fn tab_to(browser: &Browser, wanted: &str) {
    for _ in 0..60 {
        browser.press(TAB);
        let script = format!("const e = document.activeElement; return Boolean({wanted})");
        if browser.run(&script) == json!(true) {
            return;
        }
    }
    panic!("the keyboard does not reach {wanted}");
}

#[test]
fn the_keyboard_alone_is_enough() {
    let _client = with_life("browser_keys");
    let gateway = gateway("browser_keys", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    browser.press(TAB);
    let first = browser.run("return document.activeElement.className");
    assert_eq!(first, "skip", "the first is the way to the content");
    let outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid", "the focus is seen");
    browser.press(ENTER);
    assert_eq!(browser.run("return document.activeElement.id"), "main");
    open(&browser, &gateway, &format!("/ui/memory/{LISBON}"));
    tab_to(&browser, "e.matches('.edit summary')");
    browser.press(ENTER);
    tab_to(&browser, "e.matches('.edit textarea')");
    browser.run("document.activeElement.select()");
    for letter in "Ann lives in Porto.".chars() {
        browser.press(&letter.to_string());
    }
    tab_to(&browser, "e.matches('.edit .primary')");
    browser.press(ENTER);
    browser.wait_for_text("Corrected.");
    browser.wait_for_text("Ann lives in Porto.");
    // Everything that is typed into has a label, and every table its headings.
    for path in [
        "/ui",
        "/ui/search?q=Lisbon",
        "/ui/prompt?q=Lisbon",
        "/ui/files",
        "/ui/background",
        "/ui/session?session=moving",
    ] {
        open(&browser, &gateway, path);
        let unnamed = browser.run(
            "return [...document.querySelectorAll('input:not([type=hidden]), textarea, select, summary, button, a')] \
                 .filter(e => !e.hidden && !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim())) \
                 .map(e => e.outerHTML)",
        );
        assert_eq!(unnamed, json!([]), "{path}");
        let counts = browser.run(
            "return [document.querySelectorAll('main, header, nav[aria-label]').length >= 3, \
                     document.querySelectorAll('h1').length, \
                     [...document.querySelectorAll('table')].every(t => t.querySelector('th[scope=col]')), \
                     new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size \
                         === document.querySelectorAll('[id]').length]",
        );
        assert_eq!(counts, json!([true, 1, true, true]), "{path}");
    }
}

#[test]
fn the_slider_shows_what_held_then() {
    let _client = with_life("browser_slider");
    let gateway = gateway("browser_slider", Some("ann"));
    let browser = Browser::start();
    open(&browser, &gateway, "/ui");
    browser.wait_for_text("Ann eats fish but no meat");
    let shown = browser.run("return !document.querySelector('[data-slider]').hidden");
    assert_eq!(shown, true);
    browser.click(".pill summary");
    browser.run("document.querySelector('[data-slider]').focus()");
    browser.press(HOME);
    browser.wait_for_text("What held on 2 Mar 2026");
    assert!(!browser.text().contains("Ann eats fish"), "{}", browser.text());
    assert!(browser.url().contains("as_of=2026-03-02"), "{}", browser.url());
    assert_eq!(browser.run("return document.activeElement.type"), "range", "the focus stays");
    browser.click("#back a");
    browser.wait_for_text("Ann eats fish but no meat");
    assert!(!browser.url().contains("as_of"), "{}", browser.url());
    assert_eq!(browser.complaints(), [""; 0]);
    // Without scripts the field and the button do the same.
    browser.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    open(&browser, &gateway, "/ui?as_of=2026-07-01T10:00");
    browser.wait_for_text("What held on 1 Jul 2026, 10:00 UTC");
    browser.click("#back a");
    browser.wait_for_text("Ann eats fish but no meat");
}

#[test]
fn no_text_becomes_a_script() {
    let (_client, ids) = poisoned("browser_texts");
    let gateway = gateway("browser_texts", Some(NAME));
    let browser = Browser::start();
    for path in poisoned_paths(&ids) {
        open(&browser, &gateway, &path);
        let taken = browser.run("return typeof window.taken");
        assert_eq!(taken, "undefined", "{path}");
        let strange = browser.run(
            "return document.querySelectorAll('img[src=x], [onerror], [onload], [onclick], script:not([src])').length",
        );
        assert_eq!(strange, 0, "{path}");
    }
    let complaints = browser.complaints();
    assert!(
        !complaints.iter().any(|line| line.contains("Content Security Policy")),
        "{complaints:?}"
    );
    // Should one get through all the same, the policy stops it.
    open(&browser, &gateway, "/ui");
    browser.run("const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)");
    assert_eq!(browser.run("return typeof window.taken"), "undefined");
    assert!(browser.complaints().iter().any(|line| line.contains("Content Security Policy")));
}

#[test]
fn every_view_by_day_and_by_night() {
    let mut client = with_life("browser_views");
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, session_id, status, attempts, last_error, finished_at) VALUES \
             (gen_random_uuid(), 'extract', 'ann', 'kitchen', 'dead', 5, 'the endpoint answered 503 five times', now()), \
             (gen_random_uuid(), 'summarize', 'ann', 'work', 'done', 1, NULL, now()); \
         INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, prompt_tokens, completion_tokens, status) \
             SELECT gen_random_uuid(), 'ann', p, 'qwen2.5:7b', 900 + n * 31, 40 + n, 'ok' \
               FROM unnest('{extract,reconcile}'::text[]) p, generate_series(1, 4) n; \
         SELECT memory_create_token('ann', 'laptop'), memory_create_token('ben', 'phone')",
    );
    let gateway = gateway_with_admins("browser_views", "ann", "ann");
    let browser = Browser::start();
    let one = format!("/ui/memory/{LISBON}");
    let views = [
        ("facts", "/ui", "document.querySelectorAll('.fact .sources')[1].open = true"),
        ("sessions", "/ui/sessions", ""),
        ("session", "/ui/session?session=moving", ""),
        (
            "search",
            "/ui/search?q=What+must+Lena+not+eat%3F&top=4",
            "document.querySelector('.why').open = true",
        ),
        ("prompt", "/ui/prompt?q=Which+cake+can+I+bake+for+Lena%3F", ""),
        ("memory", one.as_str(), ""),
        ("files", "/ui/files", ""),
        ("background", "/ui/background", ""),
        ("erase", "/ui/files", ""),
    ];
    for (scheme, is_dark) in [("light", false), ("dark", true)] {
        browser.prefer(scheme);
        for (name, path, script) in views {
            open(&browser, &gateway, path);
            if name == "erase" {
                browser.click("form[action='/ui/erase'] button");
                browser.wait_for_text("to confirm");
            }
            browser.run(script);
            assert_readable(&browser, ".user", is_dark);
            draw(&browser, name, scheme);
        }
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// As the eye sees it: text and paper are far apart, `muted` text too, and the right one is light.
#[track_caller]
fn assert_readable(browser: &Browser, muted: &str, is_dark: bool) {
    let colours = browser.run(&format!(
        "const light = c => {{ const [r, g, b] = c.match(/\\d+/g).map(v => {{ v /= 255; \
             return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }}); \
             return .2126 * r + .7152 * g + .0722 * b }}; \
         const body = getComputedStyle(document.body); \
         const paper = light(body.backgroundColor), ink = light(body.color); \
         const muted = light(getComputedStyle(document.querySelector('{muted}')).color); \
         const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05); \
         return [paper < .5, contrast(paper, ink) >= 7, contrast(paper, muted) >= 4.5]"
    ));
    assert_eq!(colours, json!([is_dark, true, true]));
}

/// Draws the page for the documentation, where somebody asked for it; in the dark only one.
fn draw(browser: &Browser, name: &str, scheme: &str) {
    let name = if scheme == "dark" { format!("{name}-dark.png") } else { format!("{name}.png") };
    if scheme == "light" || name == "facts-dark.png" {
        drawn(browser, "MEMORY_AGENT_PICTURES", &name, 1200, 1000);
    }
}

/// Draws the page into the directory that a variable names, if there is one.
pub fn drawn(browser: &Browser, variable: &str, name: &str, width: i64, most: i64) {
    let Some(directory) = std::env::var_os(variable) else { return };
    let height =
        format!("return Math.min({most}, Math.max(560, document.documentElement.scrollHeight))");
    let height = browser.run(&height);
    let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
    let wanted = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
    let drawn = browser.devtools("Page.captureScreenshot", &wanted);
    let file = std::path::Path::new(&directory).join(name);
    std::fs::write(file, decoded(drawn["data"].as_str().unwrap())).unwrap();
}

/// Bytes out of base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').map(value).collect();
    let mut bytes = Vec::new();
    for four in letters.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(*letter));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
