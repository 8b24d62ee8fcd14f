//! Who calls: the users with their secrets, the SQL roles, and whom a call acts for.

use crate::random::Random;

/// `memory_agent.identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Setting,
    Required,
    Role,
    Claims,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::Required => "required",
            Self::Role => "role",
            Self::Claims => "claims",
        }
    }

    /// Names the user of a session, or none, as sessions do it in this mode.
    pub fn naming(self, user: &str) -> String {
        match self {
            Self::Claims if user.is_empty() => "SET request.jwt.claims = ''; ".to_owned(),
            Self::Claims => format!("SET request.jwt.claims = '{{\"sub\": \"{user}\"}}'; "),
            _ => format!("SET memory_agent.user_id = '{user}'; "),
        }
    }
}

/// A user of the memory, who is an SQL role of the same name too.
pub struct Person {
    pub name: String,
    /// A word that only this user's texts hold, and no argument of anybody else.
    pub secret: String,
    /// The name of a session. Others know it, and use it in their calls.
    pub handle: String,
    /// Whether the role has the level `reader` only.
    pub is_reader: bool,
}

/// Users that call.
pub const CALLERS: usize = 7;
/// A role of level `user` that an application connects with; it may name any user in the modes that
/// take the setting.
pub const APPLICATION: usize = 5;
/// A role of level `reader`.
pub const READER: usize = 6;
/// The user who does nothing.
pub const WITNESS: usize = CALLERS;
/// The memory that all see.
pub const SHARED: usize = CALLERS + 1;

/// All users, the witness and the shared memory at the end.
pub fn people(random: &mut Random) -> Vec<Person> {
    // Without vowels no dictionary stems them.
    let mut word = |prefix: &str| {
        let letters = b"bcdfghjklmnpqrtvwxz23456789";
        let tail = (0..9).map(|_| letters[random.below(letters.len() as u64) as usize] as char);
        format!("{prefix}{}", tail.collect::<String>())
    };
    (0..=SHARED)
        .map(|number| Person {
            name: match number {
                APPLICATION => "application".to_owned(),
                READER => "reader".to_owned(),
                WITNESS => "witness".to_owned(),
                SHARED => "*".to_owned(),
                _ => format!("person{number}"),
            },
            secret: word("sq"),
            handle: word("hd"),
            is_reader: number == READER,
        })
        .collect()
}

/// Who makes a call, and whom it names.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// The SQL role.
    pub role: usize,
    /// `memory_agent.user_id`, or the subject of the claims.
    pub setting: Option<usize>,
    /// The argument `user_id`.
    pub argument: Option<usize>,
}

impl Actor {
    pub fn random(random: &mut Random) -> Self {
        // Half of the calls come through the role that names its users.
        let role = match random.below(14) {
            0..=6 => APPLICATION,
            7 => READER,
            other => (other - 8) as usize % APPLICATION,
        };
        let somebody = |random: &mut Random| random.below(SHARED as u64 + 1) as usize;
        let caller = random.below(APPLICATION as u64) as usize;
        let setting = match random.below(10) {
            0..=5 => Some(caller),
            6 => Some(somebody(random)),
            _ => None,
        };
        let argument = match random.below(10) {
            0..=5 => None,
            6 | 7 => setting.or(Some(caller)),
            8 => Some(role),
            _ => Some(somebody(random)),
        };
        // Nobody acts for the witness, whom nobody but the argument may name: it must be refused.
        let setting = setting.filter(|setting| *setting != WITNESS);
        let is_named = setting.is_none() && argument == Some(WITNESS);
        Self { role, setting, argument: argument.filter(|_| !is_named) }
    }

    /// Whom the session's own identity is, as direct SELECTs and functions without the argument see it.
    pub fn identity(&self, mode: Mode) -> Option<usize> {
        match (mode, self.setting) {
            (Mode::Role, _) | (Mode::Setting, None) => Some(self.role),
            (Mode::Required | Mode::Claims, None) => None,
            (_, Some(setting)) => Some(setting).filter(|user| *user != SHARED),
        }
    }

    /// Whom a function acts for that takes the argument; `None` when it has to refuse.
    pub fn acts_for(&self, mode: Mode) -> Option<usize> {
        let Some(argument) = self.argument else { return self.identity(mode) };
        if argument == SHARED {
            return None;
        }
        match (mode, self.setting) {
            (Mode::Role, _) => Some(self.role).filter(|role| *role == argument),
            (Mode::Claims, None) => None,
            (_, None) => Some(argument),
            (_, Some(setting)) => Some(setting).filter(|user| *user == argument),
        }
    }
}
