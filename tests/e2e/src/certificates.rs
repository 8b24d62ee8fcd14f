//! Certificates for servers that speak TLS, made by openssl(1).

use crate::files;
use std::path::{Path, PathBuf};
use std::process::Command;

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

/// A directory with two authorities, `ca` and `other_ca`, and what they signed: NAME.pem and NAME.key.
#[derive(Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes the authorities.
    ///
    /// # Panics
    /// If there is no openssl, with the target that installs it.
    pub fn new() -> Self {
        let own = Self(files::new_directory("tls"));
        for authority in ["ca", "other_ca"] {
            own.openssl(&format!(
                "req -x509 {NEW_KEY} -keyout {authority}.key -out {authority}.pem -days 2 -subj /CN={authority}"
            ));
        }
        own
    }

    /// Has an authority sign a certificate for so many days, for names such as `DNS:db.example`.
    pub fn issue(&self, name: &str, authority: &str, alternative: &str, days: u32) {
        self.openssl(&format!(
            "req -new {NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN={name} \
             -addext subjectAltName={alternative}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -days {days} \
             -copy_extensions copyall -out {name}.pem"
        ));
    }

    /// One that nobody signed but itself.
    pub fn issue_to_itself(&self, name: &str, alternative: &str) {
        self.openssl(&format!(
            "req -x509 {NEW_KEY} -keyout {name}.key -out {name}.pem -days 2 -subj /CN=self \
             -addext subjectAltName={alternative} -addext basicConstraints=critical,CA:FALSE"
        ));
    }

    /// Lets the server's user read a key, and nobody else.
    pub fn give_to_server(&self, name: &str) {
        for end in ["key", "pem"] {
            files::give_to_server(&self.0.join(format!("{name}.{end}")));
        }
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Calls openssl(1) in their directory; what it printed.
    ///
    /// # Panics
    /// If it fails.
    pub fn openssl(&self, arguments: &str) -> String {
        let output = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(&self.0)
            .output()
            .expect("openssl is missing: run `make setup`");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {arguments}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        files::dispose(&self.0);
    }
}
