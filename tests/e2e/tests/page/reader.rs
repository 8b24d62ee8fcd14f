//! Somebody with a browser that keeps cookies and sends forms, without one.

use memory_agent_e2e::Gateway;
use memory_agent_e2e::http::{Reply, encoded, request};
use std::net::SocketAddr;

/// A reader of the page.
pub struct Reader {
    pub address: SocketAddr,
    pub cookie: Option<String>,
    pub form_token: String,
}

impl Reader {
    pub fn of(gateway: &Gateway) -> Self {
        Self { address: gateway.address(), cookie: None, form_token: String::new() }
    }

    /// A reader who has signed in.
    pub fn signed_in(gateway: &Gateway, token: &str) -> Self {
        let mut reader = Self::of(gateway);
        reader.get("/ui/login");
        let reply = reader.post("/ui/login", &[("token", token)]);
        assert_eq!((reply.status, reply.header("location")), (303, Some("/ui")), "{reply:?}");
        reader
    }

    /// Looks at a page.
    pub fn get(&mut self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    /// The text of a page that is there.
    #[track_caller]
    pub fn page(&mut self, path: &str) -> String {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text().to_owned()
    }

    /// Sends a form of the page that was looked at last.
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let token = self.form_token.clone();
        let fields = [&[("form_token", token.as_str())], fields].concat();
        self.post_raw(path, &fields)
    }

    /// Sends a form as it is.
    pub fn post_raw(&mut self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let origin = format!("http://{}", self.address);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send("POST", path, &headers, body.join("&").as_bytes())
    }

    /// Sends files.
    pub fn upload(&mut self, path: &str, files: &[(&str, &[u8])]) -> Reply {
        let token = self.form_token.clone();
        let mut body = Vec::new();
        let mut part = |head: &str, bytes: &[u8]| {
            let head = format!("--XX\r\ncontent-disposition: form-data; {head}\r\n\r\n");
            body.extend([head.as_bytes(), bytes, b"\r\n"].concat());
        };
        part("name=\"form_token\"", token.as_bytes());
        for (name, bytes) in files {
            part(&format!("name=\"files\"; filename=\"{name}\""), bytes);
        }
        body.extend_from_slice(b"--XX--\r\n");
        let headers = [
            ("content-type", "multipart/form-data; boundary=XX"),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send("POST", path, &headers, &body)
    }

    /// Sends anything, with the cookie, and keeps what the answer sets.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let cookie = self.cookie.clone();
        let mut headers = headers.to_vec();
        if let Some(cookie) = &cookie {
            headers.push(("cookie", cookie));
        }
        let reply = request(self.address, method, path, &headers, body);
        for (name, value) in &reply.headers {
            if name == "set-cookie" && !value.contains("Max-Age=0") {
                self.cookie = value.split(';').next().map(str::to_owned);
            }
        }
        let text = String::from_utf8_lossy(&reply.body);
        if let Some((_, rest)) = text.split_once("name=\"form_token\" value=\"") {
            self.form_token = rest.split('"').next().unwrap_or_default().to_owned();
        }
        reply
    }
}

/// The text of HTML without its tags, as a reader sees it.
pub fn read(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for letter in html.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => {
                is_tag = false;
                text.push(' ');
            }
            other if !is_tag => text.push(other),
            _ => {}
        }
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&amp;", "&").split_whitespace().collect::<Vec<_>>().join(" ")
}
