//! That every visitor can use the page: a checker finds nothing on any view, by day and by night, on a desk and on a
//! phone; borders, dots and faint texts are seen; nothing is cut off. With `MEMORY_AGENT_EVERY_PICTURE` naming a
//! directory, each view is drawn there in each of these ways.

use crate::browser::drawn;
use crate::known::delivered;
use crate::reader::Reader;
use crate::{LISBON, database, gateway, gateway_with_admins, with_life};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::programs_of_others::installed;
use memory_agent_e2e::{Browser, Gateway, json};

/// A desk and a phone.
const WIDTHS: [i64; 2] = [1400, 390];

fn open(browser: &Browser, gateway: &Gateway, path: &str) {
    browser.open(&format!("http://{}{path}", gateway.address()));
}

/// Has the browser be so wide.
fn resize(browser: &Browser, width: i64) {
    let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
    browser.devtools("Emulation.setDeviceMetricsOverride", &size);
}

/// What the checker finds.
fn findings(browser: &Browser, checker: &str) -> String {
    browser.run(checker);
    let found = browser.run(
        "return axe.run().then(found => found.violations.flatMap(one => one.nodes.map(node => \
             `${one.id}: ${node.html.slice(0, 200)} (${node.any.concat(node.all, node.none).map(c => c.message).join('; ')})`)))",
    );
    let found: Vec<String> =
        found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    found.join("\n")
}

/// How far apart colours are, as the guidelines count it. `over` is what stands behind.
const CONTRAST: &str = "const parse = c => c.match(/[\\d.]+/g).map(Number); \
    const light = c => { const [r, g, b] = parse(c).map(v => { v /= 255; \
        return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b }; \
    const contrast = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + .05) / (Math.min(x, y) + .05) }; \
    const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; \
        if (parse(c)[3] !== 0) return c } return 'rgb(255, 255, 255)' };";

/// Fields whose border is too faint, inside or outside; placeholders that are; dots that are not what they mean.
fn faint(browser: &Browser) -> String {
    let script = format!(
        "{CONTRAST} const bad = []; \
         for (const e of document.querySelectorAll('input:not([type=hidden], [type=range], [type=checkbox], [type=file]), textarea, select, .button, button')) {{ \
             if (!e.getClientRects().length) continue; \
             const style = getComputedStyle(e), own = behind(e), around = behind(e.parentElement); \
             const isFilled = contrast(own, around) >= 3; \
             if (!isFilled && contrast(style.borderTopColor, around) < 3) bad.push('border: ' + e.outerHTML.slice(0, 120)); \
             if (e.placeholder && contrast(getComputedStyle(e, '::placeholder').color, own) < 4.5) bad.push('placeholder: ' + e.outerHTML.slice(0, 120)); \
         }} \
         for (const e of document.querySelectorAll('.state')) {{ \
             if (contrast(getComputedStyle(e, '::before').borderTopColor, behind(e)) < 3) bad.push('dot: ' + e.outerHTML) }} \
         return bad"
    );
    browser.run(&script).as_array().unwrap().iter().map(|one| format!("{one}\n")).collect()
}

/// What is wider than the page, and buttons that are cut off.
fn cut_off(browser: &Browser) -> String {
    let script = "const wide = document.documentElement.clientWidth, bad = []; \
        if (document.documentElement.scrollWidth > wide) bad.push('the page scrolls: ' + document.documentElement.scrollWidth); \
        for (const e of document.querySelectorAll('main button, main .button, main input, main select, main summary')) { \
            const box = e.getBoundingClientRect(); \
            if (box.width && (box.right > wide + 1 || box.left < -1) && !e.closest('.hidden, .pick, .chips')) bad.push(e.outerHTML.slice(0, 160)) } \
        return bad";
    browser.run(script).as_array().unwrap().iter().map(|one| format!("{one}\n")).collect()
}

/// Whether the way around is in one line.
fn is_one_line(browser: &Browser) -> bool {
    browser.run("return document.querySelector('.top').getBoundingClientRect().height <= 72")
        == json!(true)
}

#[test]
fn a_checker_finds_nothing_on_any_view() {
    let mut client = with_life("accessible");
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, session_id, status, attempts, last_error, finished_at) VALUES \
             (gen_random_uuid(), 'extract', 'ann', 'kitchen', 'dead', 5, 'it is empty', now()), \
             (gen_random_uuid(), 'embed', 'ann', NULL, 'pending', 1, NULL, NULL), \
             (gen_random_uuid(), 'summarize', 'ann', 'work', 'done', 1, NULL, now()); \
         INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, prompt_tokens, completion_tokens, status) \
             VALUES (gen_random_uuid(), 'ann', 'extract', 'small', 1200, 34, 'ok'); \
         SELECT memory_create_token('ann', 'laptop'); \
         SELECT memory_set_quota('ann', entries => 5000, bytes => 1000000, daily_tokens => 1000); \
         SELECT memory_ingest('chat ' || n, 'user', 'The key is under the blue pot.') FROM generate_series(1, 3) n",
    );
    let mut empty = database("accessible_new");
    run(&mut empty, "SELECT 1");
    let (ann, new, door) = (
        gateway_with_admins("accessible", "ann", "ann"),
        gateway("accessible_new", Some("ann")),
        gateway("accessible", None),
    );
    let mut reader = Reader::of(&ann);
    reader.page("/ui/files");
    reader.upload("/ui/import", &[("chatgpt.zip", &delivered())]);
    let axe = installed("page-checker", "tests/page/axe/package-lock.json");
    let axe = std::fs::read_to_string(axe.join("node_modules/axe-core/axe.min.js")).unwrap();
    let one = format!("/ui/memory/{LISBON}");
    let prompt = "/ui/prompt?q=Which+cake+can+I+bake+for+Lena%3F&session=kitchen&budget=400";
    let open_all =
        "document.querySelectorAll('main details:not(.menu)').forEach(e => e.open = true)";
    let views: [(&str, &Gateway, &str, &str); 18] = [
        ("facts", &ann, "/ui", ""),
        (
            "facts_open",
            &ann,
            "/ui",
            "document.querySelectorAll('.fact .edit, .fact .sources, .add')\
            .forEach((e, n) => e.open = n < 3); document.querySelectorAll('.more')[4].open = true; document.querySelector('.pick').click()",
        ),
        (
            "facts_time",
            &ann,
            "/ui?as_of=2026-07-01T10:00",
            "document.querySelector('.pill').open = true",
        ),
        ("facts_found", &ann, "/ui?q=Lena", ""),
        ("facts_none", &ann, "/ui?key=nothing", ""),
        ("facts_new", &new, "/ui", ""),
        ("sessions", &ann, "/ui/sessions", ""),
        ("session", &ann, "/ui/session?session=moving", ""),
        ("search", &ann, "/ui/search?q=Where+is+the+key%3F&top=4", open_all),
        ("search_none", &new, "/ui/search?q=anything", ""),
        ("prompt", &ann, prompt, "document.querySelector('.dropped')?.setAttribute('open', '')"),
        ("memory", &ann, one.as_str(), open_all),
        ("files", &ann, "/ui/files", ""),
        ("background", &ann, "/ui/background", open_all),
        ("erase", &ann, "/ui/files", ""),
        ("forgotten", &ann, "/ui?done=forgotten&ids=0199c3a5-0000-7000-8000-000000000a05", ""),
        ("notfound", &ann, "/ui/memory/0199c3a5-0000-7000-8000-00000000ffff", ""),
        ("login", &door, "/ui/login", ""),
    ];
    let browser = Browser::start();
    let mut found = String::new();
    for width in WIDTHS {
        resize(&browser, width);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            for (name, gateway, path, script) in views {
                open(&browser, gateway, path);
                if name == "erase" {
                    browser.click("form[action='/ui/erase'] button");
                    browser.wait_for_text("to confirm");
                }
                browser.run(script);
                let picture = format!("{name}_{width}_{scheme}.png");
                drawn(&browser, "MEMORY_AGENT_EVERY_PICTURE", &picture, width, 1600);
                let problems =
                    [findings(&browser, &axe), faint(&browser), cut_off(&browser)].concat();
                if !problems.is_empty() {
                    found.push_str(&format!("{name}, {width}, {scheme}:\n{problems}\n"));
                }
                assert!(is_one_line(&browser), "{name}, {width}: the header is one line");
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}
