//! Where a database is, as far as a connection string leaves it open: the variables of libpq say it, as for psql.

use tokio_postgres::config::{Config, Host};

/// Where Debian's servers have their sockets.
const SOCKETS: &str = "/var/run/postgresql";

/// Fills in what a connection string does not say: out of libpq's variables, and what libpq takes without them.
///
/// # Errors
/// A variable that cannot be read.
pub fn complete(
    config: &mut Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        for host in variable("PGHOST").as_deref().unwrap_or(SOCKETS).split(',') {
            config.host(host);
        }
    }
    if config.get_ports().is_empty()
        && let Some(ports) = variable("PGPORT")
    {
        for port in ports.split(',') {
            config.port(port.parse().map_err(|_| format!("PGPORT: \"{port}\" is no port"))?);
        }
    }
    if config.get_user().is_none()
        && let Some(user) = variable("PGUSER")
    {
        config.user(user);
    }
    if config.get_dbname().is_none()
        && let Some(name) = variable("PGDATABASE")
    {
        config.dbname(name);
    }
    if config.get_password().is_none()
        && let Some(password) = variable("PGPASSWORD")
    {
        config.password(password);
    }
    Ok(())
}

/// Where it is and the role, without the password.
pub fn shown(config: &Config) -> String {
    let joined = |all: Vec<String>| Some(all.join(",")).filter(|all| !all.is_empty());
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(place) => place.display().to_string(),
    };
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    let hosts = joined(config.get_hosts().iter().map(host).collect());
    let ports = joined(config.get_ports().iter().map(ToString::to_string).collect());
    let words = [
        ("host", hosts.or(joined(addresses.collect()))),
        ("port", ports.or(Some("5432".to_owned()))),
        ("dbname", config.get_dbname().map(str::to_owned)),
        ("user", config.get_user().map(str::to_owned)),
    ];
    let words = words.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(database: &str, variables: &[(&str, &str)]) -> String {
        let mut config: Config = database.parse().unwrap();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        complete(&mut config, variable).unwrap();
        shown(&config)
    }

    #[test]
    fn what_is_left_open_comes_from_the_environment() {
        let all = [
            ("PGHOST", "db"),
            ("PGPORT", "6543"),
            ("PGUSER", "ann"),
            ("PGDATABASE", "app"),
            ("PGPASSWORD", "secret"),
        ];
        assert_eq!(completed("", &all), "host=db port=6543 dbname=app user=ann");
        let given = "host=/run port=1 dbname=x user=y";
        assert_eq!(completed(given, &all), given);
        assert_eq!(
            completed("postgres://bob@/app", &all[..2]),
            "host=db port=6543 dbname=app user=bob"
        );
        assert_eq!(completed("", &[("PGUSER", "")]), "host=/var/run/postgresql port=5432");
        let mut config = Config::new();
        assert!(complete(&mut config, |name| (name == "PGPORT").then(|| "x".to_owned())).is_err());
    }
}
