//! A gateway of one person, who needs no token, and what web pages have the person's browser do there.

use crate::http::{chat, says, send};
use crate::upstream::Upstream;
use crate::{PATIENCE, for_ann, stored};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Browser, wait_until};

/// What a hostile upstream would run on the page's origin: it sends the memory away and erases it.
const EVIL: &str = "<!doctype html><body><script>(async () => {
    const memory = await (await fetch('/ui/export')).blob();
    await fetch('/v1/leak', {method: 'POST', body: memory});
    const form = await (await fetch('/ui/files')).text();
    const form_token = form.match(/name=\"form_token\" value=\"([^\"]+)\"/)[1];
    const fields = new URLSearchParams({form_token, everything: 'yes', word: 'ann'});
    await fetch('/ui/erased', {method: 'POST', body: fields});
    document.body.textContent = 'The script ran.';
})()</script>";

#[test]
fn a_page_that_the_upstream_answers_with_does_not_run() {
    let upstream = Upstream::start(|request, answer| match request.path.as_str() {
        "/v1/evil" => answer.whole(200, &[("content-type", "text/html")], EVIL),
        _ => answer.json("{}"),
    });
    let (gateway, mut client) = for_ann("web_evil", &upstream, &[]);
    run(&mut client, "SELECT memory_ingest('s', 'user', 'My PIN is 9876.', user_id => 'ann')");
    let evil = format!("http://{}/v1/evil", gateway.address());
    // Another site, on another port of this machine: it has the browser post, and then go there.
    let by_name = format!("http://localhost:{}", gateway.address().port());
    let page = format!(
        "<!doctype html><body><script>(async () => {{
            const body = JSON.stringify({{messages: [{{role: 'user', content: 'Planted.'}}], memory_id: 's'}});
            for (const gateway of ['http://{}', '{by_name}']) {{
                await fetch(gateway + '/v1/chat/completions', {{method: 'POST', mode: 'no-cors', body}});
                await fetch(gateway + '/v1/evil', {{mode: 'no-cors'}});
            }}
            location = '{evil}';
        }})()</script>",
        gateway.address()
    );
    let site = Upstream::start(move |_, answer| {
        answer.whole(200, &[("content-type", "text/html")], &page);
    });
    let site = site.url().replace("127.0.0.1", "localhost").replace("/v1", "/");
    let browser = Browser::start();
    for address in [&evil, &site] {
        browser.open(address);
        let mut shown = String::new();
        wait_until(PATIENCE, "the browser to be there", || {
            shown = if browser.url() == evil { browser.text() } else { String::new() };
            !shown.is_empty()
        });
        assert!(shown.contains("forbidden"), "{address}: {shown}");
    }
    assert!(upstream.requests().iter().all(|request| request.path == "/v1/models"));
    assert_eq!(stored(&mut client, "ann", "s"), ["user: My PIN is 9876."]);
    // The page itself is open to links from anywhere.
    browser.open(&format!("http://{}/ui/session?session=s", gateway.address()));
    browser.wait_for_text("My PIN is 9876.");
}

#[test]
fn only_programs_and_the_page_itself_ask() {
    let upstream = Upstream::saying("Yes.");
    let (gateway, mut client) = for_ann("web_origins", &upstream, &[]);
    let here = gateway.address().to_string();
    let own = format!("http://{here}");
    let other = format!("http://localhost:{}", gateway.address().port());
    let ask = |headers: &[(&str, &str)]| {
        let posted = chat(&gateway, headers, &says("s", "Hello.")).status;
        let paths = ["/v1/models", "/v1/files", "/metrics", "/v1/ping/"];
        let got = paths.map(|path| send(gateway.address(), "GET", path, headers, "").status);
        (posted, got)
    };
    let let_in = (200, [200; 4]);
    assert_eq!(ask(&[]), let_in);
    assert_eq!(ask(&[("origin", &own), ("sec-fetch-site", "same-origin")]), let_in);
    assert_eq!(ask(&[("origin", &own)]), let_in);
    // Node's own client says so much.
    assert_eq!(ask(&[("sec-fetch-mode", "cors")]), let_in);
    let turns = stored(&mut client, "ann", "s").len();
    for headers in [
        &[("origin", "http://localhost:3000")][..],
        &[("origin", "http://127.0.0.1:3000")],
        &[("origin", &*other)],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")],
        &[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")],
        &[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "navigate")],
    ] {
        assert_eq!(ask(headers), (403, [403; 4]), "{headers:?}");
    }
    assert_eq!(stored(&mut client, "ann", "s").len(), turns);
    // A link of another site leads to the page, and the page's own files come.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(send(gateway.address(), "GET", "/ui", &link, "").status, 200);
}
