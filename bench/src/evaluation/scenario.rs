//! What a scenario consists of: subjects on which exactly one thing holds at a time, in the words in
//! which it is said, changed and asked about.

/// A subject with a current value.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    /// Unique within its scenario.
    pub name: &'static str,
    /// How a user says it first; `{}` stands for the value, here and below.
    pub said: &'static str,
    /// How a user replaces one value by another.
    pub changed: &'static str,
    /// The fact that a good model makes of either.
    pub fact: &'static str,
    /// What is asked at the end. It names no value.
    pub question: &'static str,
    /// Values, any two of which contradict each other. None occurs anywhere else in its scenario, so
    /// that a row which has one in its text is about this topic.
    pub values: &'static [&'static str],
}

impl Topic {
    pub fn said(&self, value: &str) -> String {
        self.said.replace("{}", value)
    }

    pub fn changed(&self, value: &str) -> String {
        self.changed.replace("{}", value)
    }

    pub fn fact(&self, value: &str) -> String {
        self.fact.replace("{}", value)
    }
}

/// A kind of conversation.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    /// What it shows, in one line.
    pub tests: &'static str,
    /// Share of the statements that replace an earlier one.
    pub changes: f64,
    /// Whether one message says two things, where two statements on different topics follow each other. When
    /// one of them is replaced, the other still holds.
    pub in_pairs: bool,
    pub topics: &'static [Topic],
}

impl Scenario {
    /// Whether all its facts are about the user.
    pub fn is_about_user(&self) -> bool {
        self.topics.iter().all(|topic| topic.fact.to_lowercase().contains("the user"))
    }
}
