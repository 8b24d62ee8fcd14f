//! Where the database is, and TLS on the way to it. A connection string says both, in libpq's words: the
//! driver reads all of them but those of TLS that libpq has and the driver has not.

use crate::db::database_address;
use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Config, Host, SslMode};
use tokio_postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Without the reason: it may quote a password.
const ADDRESS: &str = "invalid database address: expected a URL, or words like host=/run/postgresql \
                       dbname=mydb user=gateway";
const MODES: &str = "sslmode is one of disable, prefer, require, verify-ca, verify-full";

/// How a statement is cancelled: with TLS where its connection has TLS.
#[derive(Clone)]
pub enum Cancelling {
    Plain,
    Encrypted(MakeRustlsConnect),
}

impl Cancelling {
    /// Asks the server to cancel what a connection does.
    ///
    /// # Errors
    /// That the server cannot be asked.
    pub async fn cancel(&self, token: CancelToken) -> Result<(), tokio_postgres::Error> {
        match self {
            Self::Plain => token.cancel_query(NoTls).await,
            Self::Encrypted(tls) => token.cancel_query(tls.clone()).await,
        }
    }
}

/// What makes connections, as a connection string and the variables of libpq say, what cancels on them, and where
/// the database is, for the operator. `patience` is how long one may take where the string does not say that.
///
/// # Errors
/// What is wrong with the string, or with the file of authorities that it names.
pub fn manager(
    database: &str,
    patience: Duration,
) -> Result<(Manager, Cancelling, String), String> {
    let variable = |name: &str| std::env::var(name).ok();
    let (words, security) = Security::taken_from(database, variable)?;
    let mut config: Config = words.parse().map_err(|_| ADDRESS.to_owned())?;
    database_address::complete(&mut config, variable)?;
    let address = database_address::shown(&config);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(patience);
    }
    config.application_name("memory-agent");
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    // As in libpq, there is no TLS on a socket of this machine.
    if security.mode == SslMode::Disable
        || (!config.get_hosts().is_empty() && config.get_hosts().iter().all(is_socket))
    {
        config.ssl_mode(SslMode::Disable);
        return Ok((Manager::from_config(config, NoTls, recycling), Cancelling::Plain, address));
    }
    if config.get_hosts().iter().any(is_socket) {
        return Err(
            "the database's hosts are sockets and others: name one kind, or set sslmode=disable"
                .to_owned(),
        );
    }
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    config.ssl_mode(security.mode);
    let tls = MakeRustlsConnect::new(security.client()?);
    let manager = Manager::from_config(config, tls.clone(), recycling);
    Ok((manager, Cancelling::Encrypted(tls), address))
}

/// What a connection string says of TLS.
#[derive(Debug, PartialEq, Eq)]
struct Security {
    mode: SslMode,
    belief: Belief,
    /// A file with the authorities that are believed; without, those of the system are.
    authorities: Option<String>,
}

/// How far a server is believed to be the one that was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// Any server that answers: the connection is encrypted, but the server may be the wrong one.
    AnyServer,
    /// Who has a certificate of the authorities.
    OfAuthorities,
    /// The same, with the name that was asked for.
    OfName,
}

impl Security {
    /// What a connection string says, or else the variables of libpq, and the string without that.
    fn taken_from(
        database: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(String, Self), String> {
        let (mut mode, mut authorities) = (None, None);
        let mut rest = String::new();
        let mut kept = 0;
        for Word { place, name, value } in words(database) {
            match name.as_str() {
                "sslmode" => mode = Some(value),
                "sslrootcert" => authorities = Some(value).filter(|file| !file.is_empty()),
                _ => continue,
            }
            rest.push_str(&database[kept..place.start]);
            kept = place.end;
        }
        rest.push_str(&database[kept..]);
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let mode = mode.or_else(|| variable("PGSSLMODE"));
        let authorities = authorities.or_else(|| variable("PGSSLROOTCERT"));
        let (mode, belief) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Belief::AnyServer),
            None | Some("prefer") => (SslMode::Prefer, Belief::AnyServer),
            // libpq has it so: who names authorities wants them to be asked.
            Some("require") if authorities.is_some() => (SslMode::Require, Belief::OfAuthorities),
            Some("require") => (SslMode::Require, Belief::AnyServer),
            Some("verify-ca") => (SslMode::Require, Belief::OfAuthorities),
            Some("verify-full") => (SslMode::Require, Belief::OfName),
            Some(_) => return Err(MODES.to_owned()),
        };
        Ok((rest, Self { mode, belief, authorities }))
    }

    /// What TLS is set up with.
    fn client(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        if self.belief == Belief::OfName {
            return Ok(builder.with_root_certificates(self.roots()?).with_no_client_auth());
        }
        let authorities = match self.belief {
            Belief::AnyServer => None,
            _ => Some(
                WebPkiServerVerifier::builder_with_provider(
                    Arc::new(self.roots()?),
                    Arc::clone(&provider),
                )
                .build()
                .map_err(|error| error.to_string())?,
            ),
        };
        let verifier = Arc::new(AnyName { provider, authorities });
        Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let Some(file) = self.authorities.as_deref().filter(|file| *file != "system") else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        let unread = |reason: String| format!("sslrootcert: {file}: {reason}");
        let certificates = CertificateDer::pem_file_iter(Path::new(file))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unread(error.to_string()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(unread("it has no certificate".to_owned()));
        }
        Ok(roots)
    }
}

/// A setting in a connection string.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// With what tells it from the next one.
    place: Range<usize>,
    name: String,
    value: String,
}

/// The settings in a connection string; none where it is not well formed, which the driver says.
fn words(database: &str) -> Vec<Word> {
    let is_url = ["postgres://", "postgresql://"].iter().any(|form| database.starts_with(form));
    if is_url { of_url(database) } else { of_text(database).unwrap_or_default() }
}

fn of_url(database: &str) -> Vec<Word> {
    let Some((before, query)) = database.split_once('?') else { return Vec::new() };
    let mut at = before.len() + 1;
    let mut words = Vec::new();
    for pair in query.split('&') {
        let end = (at + pair.len() + 1).min(database.len());
        if let Some((name, value)) = form_urlencoded::parse(pair.as_bytes()).next() {
            words.push(Word { place: at..end, name: name.into_owned(), value: value.into_owned() });
        }
        at = end;
    }
    words
}

/// `name = 'value'`, with white space around and a backslash before what is meant as it stands.
fn of_text(database: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut letters = database.char_indices().peekable();
    loop {
        while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {}
        let Some(&(start, _)) = letters.peek() else { return Some(words) };
        let mut name = String::new();
        while let Some((_, letter)) =
            letters.next_if(|(_, letter)| *letter != '=' && !letter.is_whitespace())
        {
            name.push(letter);
        }
        while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {}
        letters.next_if(|(_, letter)| *letter == '=')?;
        while letters.next_if(|(_, letter)| letter.is_whitespace()).is_some() {}
        let is_quoted = letters.next_if(|(_, letter)| *letter == '\'').is_some();
        let mut value = String::new();
        loop {
            match letters.peek().map(|(_, letter)| *letter) {
                Some('\'') if is_quoted => {
                    letters.next();
                    break;
                }
                None if is_quoted => return None,
                Some(letter) if !is_quoted && letter.is_whitespace() => break,
                None => break,
                Some('\\') => {
                    letters.next();
                    value.push(letters.next()?.1);
                }
                Some(letter) => {
                    letters.next();
                    value.push(letter);
                }
            }
        }
        let end = letters.peek().map_or(database.len(), |(at, _)| *at);
        words.push(Word { place: start..end, name, value });
    }
}

/// Believes certificates whatever name they have: any, or those of authorities.
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is looked at last, when everything else is right.
        match authorities.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(database: &str) -> (String, Security) {
        Security::taken_from(database, |_| None).unwrap()
    }

    fn manager_of(database: &str) -> Result<Manager, String> {
        manager(database, Duration::from_secs(1)).map(|(manager, ..)| manager)
    }

    #[test]
    fn what_is_about_tls_is_taken_out() {
        let file = Some("/etc/my ca.pem".to_owned());
        let full = |mode| Security { mode, belief: Belief::OfName, authorities: file.clone() };
        for (database, rest) in [
            (
                "host=db sslmode=verify-full  user = 'a b' sslrootcert='/etc/my ca.pem'",
                "host=db   user = 'a b' ",
            ),
            (
                r"sslrootcert = /etc/my\ ca.pem sslmode='verify\-full' password='it\'s' host=db",
                r"  password='it\'s' host=db",
            ),
            (
                "postgresql://a:p%26w@db/x?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fmy+ca.pem",
                "postgresql://a:p%26w@db/x?connect_timeout=3&",
            ),
        ] {
            assert_eq!(taken(database), (rest.to_owned(), full(SslMode::Require)), "{database}");
            assert!(rest.parse::<Config>().is_ok(), "{rest}");
        }
    }

    #[test]
    fn modes_mean_what_libpq_means() {
        for (words, mode, belief) in [
            ("", SslMode::Prefer, Belief::AnyServer),
            ("sslmode=disable", SslMode::Disable, Belief::AnyServer),
            ("sslmode=prefer", SslMode::Prefer, Belief::AnyServer),
            ("sslmode=require", SslMode::Require, Belief::AnyServer),
            ("sslmode=require sslrootcert=f", SslMode::Require, Belief::OfAuthorities),
            ("sslmode=verify-ca", SslMode::Require, Belief::OfAuthorities),
            ("sslmode=verify-full", SslMode::Require, Belief::OfName),
        ] {
            let found = taken(&format!("host=db {words}")).1;
            assert_eq!((found.mode, found.belief), (mode, belief), "{words}");
        }
        let wrong = Security::taken_from("host=db password=x sslmode=full", |_| None);
        assert_eq!(wrong.unwrap_err(), MODES);
        let full = |name: &str| (name == "PGSSLMODE").then(|| "verify-full".to_owned());
        assert_eq!(Security::taken_from("host=db", full).unwrap().1.belief, Belief::OfName);
        assert_eq!(Security::taken_from("sslmode=disable", full).unwrap().1.mode, SslMode::Disable);
    }

    #[test]
    fn what_cannot_be_connected_to_is_said_at_once() {
        for (database, problem) in [
            ("host", ADDRESS),
            ("host='db", ADDRESS),
            ("host=db password=secret option", ADDRESS),
            ("host=db,/run sslmode=require", "the database's hosts are sockets and others"),
            (
                "host=db sslmode=verify-full sslrootcert=/nowhere/ca.pem",
                "sslrootcert: /nowhere/ca.pem: ",
            ),
            (
                "host=db sslmode=verify-ca sslrootcert=/dev/null",
                "sslrootcert: /dev/null: it has no certificate",
            ),
        ] {
            let said = manager_of(database).err().unwrap_or_default();
            assert!(said.starts_with(problem), "{database}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
        for database in [
            "host=/run/postgresql sslmode=verify-full",
            "host=db",
            "hostaddr=127.0.0.1 sslmode=require",
            "postgres://db?sslmode=verify-full",
        ] {
            assert_eq!(manager_of(database).err(), None, "{database}");
        }
    }
}
