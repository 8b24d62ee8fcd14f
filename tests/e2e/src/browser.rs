//! A real browser, Debian's Chromium without a window, told what to do in the words of WebDriver.

use crate::expect::retry_until;
use crate::http::request;
use crate::spawner;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// How often the driver is started.
const START_ATTEMPTS: usize = 5;
/// How WebDriver calls an element in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// One browser at a time: each takes hundreds of megabytes.
static ONE: Mutex<()> = Mutex::new(());

/// A browser with a new profile, which ends with the test.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    profile: PathBuf,
    _one: MutexGuard<'static, ()>,
}

/// Something on a page.
#[derive(Clone, Debug)]
pub struct Element(String);

/// Starts the driver; `None` if it ends before it says on which port it listens.
fn start_driver(home: &Path) -> Option<(Child, u16)> {
    let mut command = Command::new("/usr/bin/chromedriver");
    command.arg("--port=0").env("HOME", home).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = spawner::spawn(command)
        .unwrap_or_else(|error| panic!("chromedriver: {error}. Run `scripts/setup --tests`."));
    let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
    });
    let Some(port) = port else {
        let _ = driver.wait();
        return None;
    };
    // It goes on writing, and stops where nobody reads.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, port))
}

impl Browser {
    /// Starts one.
    ///
    /// # Panics
    /// If there is no Chromium, with the script that installs it.
    pub fn start() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("memory_agent_browser_{}", std::process::id());
        let profile = std::env::temp_dir().join(name);
        // Of a killed run.
        let _ = std::fs::remove_dir_all(&profile);
        std::fs::create_dir_all(&profile).expect("a directory");
        // It takes a port that is free for IPv4 and ends if another process has it for IPv6.
        let started = (0..START_ATTEMPTS).find_map(|_| start_driver(&profile));
        let (driver, port) = started.expect("chromedriver says its port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, address, session: String::new(), profile, _one: one };
        let profile = browser.profile.join("profile");
        let arguments = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--force-device-scale-factor=1".to_owned(),
            // It ends with its driver.
            "--remote-debugging-pipe".to_owned(),
            "--window-size=1200,1000".to_owned(),
            format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = browser.call("POST", "/session", &wanted);
        made["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_call(method, path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let headers = [("content-type", "application/json")];
        let reply = request(self.address, method, path, &headers, body.as_bytes());
        let mut answer = reply.json();
        if reply.status == 200 { Ok(answer["value"].take()) } else { Err(answer["value"].take()) }
    }

    fn here(&self, rest: &str) -> String {
        format!("/session/{}{rest}", self.session)
    }

    /// Looks at a page, and waits until it is there.
    pub fn open(&self, url: &str) {
        self.call("POST", &self.here("/url"), &json!({ "url": url }));
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        self.call("GET", &self.here("/url"), &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// The title of the page.
    pub fn title(&self) -> String {
        self.call("GET", &self.here("/title"), &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// What JavaScript on the page returns.
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.call("POST", &self.here("/execute/sync"), &body)
    }

    /// An element, once it is there.
    pub fn find(&self, selector: &str) -> Element {
        let body = json!({"using": "css selector", "value": selector});
        let found = retry_until(PATIENCE, selector, || {
            self.try_call("POST", &self.here("/element"), &body).ok()
        });
        Element(found[ELEMENT].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the text of the page contains this.
    pub fn wait_for_text(&self, text: &str) {
        retry_until(PATIENCE, text, || self.text().contains(text).then_some(()));
    }

    /// The text of the page, as it is seen.
    pub fn text(&self) -> String {
        self.run("return document.body ? document.body.innerText : ''")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Clicks on an element; where that is a link or sends a form, the next page may not be there yet.
    pub fn click(&self, selector: &str) {
        let Element(id) = self.find(selector);
        self.call("POST", &self.here(&format!("/element/{id}/click")), &json!({}));
    }

    /// Types into an element, in the place of what is in it.
    pub fn fill(&self, selector: &str, text: &str) {
        let Element(id) = self.find(selector);
        self.call("POST", &self.here(&format!("/element/{id}/clear")), &json!({}));
        self.call("POST", &self.here(&format!("/element/{id}/value")), &json!({ "text": text }));
    }

    /// Presses keys where the focus is.
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.call("POST", &self.here("/actions"), &body);
    }

    /// Has the browser prefer dark pages, or light ones.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// A command of the Chrome DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let command = json!({"cmd": command, "params": parameters});
        self.call("POST", &self.here("/goog/cdp/execute"), &command)
    }

    /// What the browser complained of, in the console, since it was asked last.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.call("POST", &self.here("/se/log"), &json!({"type": "browser"}));
        let lines = log.as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_call("DELETE", &self.here(""), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
