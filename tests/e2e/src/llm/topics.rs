//! What the people of scripted conversations talk about: subjects on which a user has exactly one
//! current position, in the user's words and as the fact that a good model makes of them.

/// A subject with a value that changes.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    pub name: &'static str,
    /// The fact, `{}` stands for the value.
    pub fact: &'static str,
    /// What the user says.
    pub said: &'static str,
    /// Values, any two of which contradict each other.
    pub values: [&'static str; 4],
}

/// Something that is true until the user says that it no longer is.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    pub name: &'static str,
    pub fact: &'static str,
    pub said: &'static str,
    /// The fact that contradicts the first, and what the user says then.
    pub ended: &'static str,
    pub said_at_the_end: &'static str,
}

const fn topic(
    name: &'static str,
    fact: &'static str,
    said: &'static str,
    values: [&'static str; 4],
) -> Topic {
    Topic { name, fact, said, values }
}

const fn habit(
    name: &'static str,
    fact: &'static str,
    said: &'static str,
    ended: &'static str,
    said_at_the_end: &'static str,
) -> Habit {
    Habit { name, fact, said, ended, said_at_the_end }
}

/// Subjects whose values replace each other.
pub const TOPICS: [Topic; 28] = [
    topic(
        "home",
        "User lives in the city of {}.",
        "I live in the city of {}.",
        ["Lisbon", "Oslo", "Nairobi", "Quito"],
    ),
    topic(
        "employer",
        "User works for the company {}.",
        "I work for the company {}.",
        ["Initech", "Hooli", "Globex", "Umbrella"],
    ),
    topic(
        "manager",
        "User's manager is called {}.",
        "My manager is called {}.",
        ["Petra Lang", "Omar Haddad", "Jim Wu", "Sofia Reyes"],
    ),
    topic(
        "dentist",
        "User's next dentist appointment is on {}.",
        "My next dentist appointment is on {}.",
        ["3 March", "17 April", "9 June", "28 July"],
    ),
    topic(
        "car",
        "User drives a {} car.",
        "I drive a {} car.",
        ["Volvo", "Fiat", "Toyota", "Skoda"],
    ),
    topic(
        "phone",
        "User's phone number ends in {}.",
        "My phone number ends in {}.",
        ["4471", "9032", "1186", "7705"],
    ),
    topic(
        "laptop",
        "User's laptop has {} GB of memory.",
        "My laptop has {} GB of memory.",
        ["8", "16", "32", "64"],
    ),
    topic(
        "marathon",
        "User's best marathon time is {} minutes.",
        "My best marathon time is {} minutes.",
        ["251", "239", "224", "213"],
    ),
    topic(
        "language",
        "User is learning {} as a foreign language.",
        "I am learning {} as a foreign language.",
        ["Swahili", "Japanese", "Welsh", "Turkish"],
    ),
    topic(
        "editor",
        "User writes code in the editor {}.",
        "I write code in the editor {}.",
        ["Emacs", "Helix", "Zed", "Kakoune"],
    ),
    topic(
        "database",
        "User's project stores its data in {}.",
        "My project stores its data in {}.",
        ["MySQL", "SQLite", "Cassandra", "DuckDB"],
    ),
    topic(
        "rent",
        "User's monthly rent is {} euros.",
        "My monthly rent is {} euros.",
        ["810", "945", "1120", "1300"],
    ),
    topic("shoes", "User's shoe size is {}.", "My shoe size is {}.", ["39", "40", "41", "42"]),
    topic(
        "doctor",
        "User's family doctor is Doctor {}.",
        "My family doctor is Doctor {}.",
        ["Kim", "Moreau", "Okafor", "Novak"],
    ),
    topic(
        "gym",
        "User goes to the gym on {}.",
        "I go to the gym on {}.",
        ["Mondays", "Tuesdays", "Thursdays", "Saturdays"],
    ),
    topic(
        "plant",
        "User waters the balcony plants every {} days.",
        "I water the balcony plants every {} days.",
        ["2", "3", "4", "6"],
    ),
    topic(
        "conference",
        "User will speak at the conference {}.",
        "I will speak at the conference {}.",
        ["PGConf", "FOSDEM", "RustNation", "SREcon"],
    ),
    topic(
        "budget",
        "The budget of the kitchen renovation is {} dollars.",
        "The budget of our kitchen renovation is {} dollars.",
        ["9000", "12500", "15750", "21000"],
    ),
    topic(
        "train",
        "User's commuter train leaves at {}.",
        "My commuter train leaves at {}.",
        ["7:12", "7:48", "8:05", "8:31"],
    ),
    topic(
        "band",
        "User's favourite band is {}.",
        "My favourite band is {}.",
        ["Radiohead", "Portishead", "Massive Attack", "Morcheeba"],
    ),
    topic(
        "bank",
        "User has a savings account at {}.",
        "I have a savings account at {}.",
        ["Barclays", "Santander", "Monzo", "Rabobank"],
    ),
    topic(
        "thesis",
        "User's thesis must be handed in on {}.",
        "My thesis must be handed in on {}.",
        ["1 May", "15 May", "20 June", "30 September"],
    ),
    topic(
        "tutor",
        "{} teaches the user to play the violin.",
        "{} teaches me to play the violin.",
        ["Ines", "Bertrand", "Yuki", "Magda"],
    ),
    topic(
        "school",
        "User's daughter goes to {} School.",
        "My daughter goes to {} School.",
        ["Hillside", "Riverbank", "Oakfield", "Westgate"],
    ),
    topic(
        "insurance",
        "User's health insurance is with {}.",
        "My health insurance is with {}.",
        ["Allianz", "Bupa", "Cigna", "Aviva"],
    ),
    topic(
        "wifi",
        "The name of the user's home network is {}.",
        "The name of my home network is {}.",
        ["Nebula5", "Cobalt7", "Walrus9", "Saffron2"],
    ),
    topic(
        "server",
        "User's web server listens on port {}.",
        "My web server listens on port {}.",
        ["8080", "8443", "9000", "3000"],
    ),
    topic(
        "neighbour",
        "{} lives in the flat above the user.",
        "{} lives in the flat above me.",
        ["Grigori", "Amina", "Leopold", "Tessa"],
    ),
];

/// Statements that are ended, not replaced.
pub const HABITS: [Habit; 10] = [
    habit(
        "meat",
        "User eats meat.",
        "I eat meat.",
        "User no longer eats meat.",
        "I no longer eat meat.",
    ),
    habit(
        "smoking",
        "User smokes cigarettes.",
        "I smoke cigarettes.",
        "User stopped smoking cigarettes.",
        "I stopped smoking cigarettes.",
    ),
    habit(
        "coffee",
        "User drinks coffee in the morning.",
        "I drink coffee in the morning.",
        "User never drinks coffee in the morning.",
        "I never drink coffee in the morning.",
    ),
    habit(
        "chess",
        "User is a member of a chess club.",
        "I am a member of a chess club.",
        "User is not a member of a chess club any more.",
        "I am not a member of a chess club any more.",
    ),
    habit(
        "cat",
        "User has a pet cat.",
        "I have a pet cat.",
        "User no longer has a pet cat.",
        "I no longer have a pet cat.",
    ),
    habit(
        "newspaper",
        "User reads a printed newspaper.",
        "I read a printed newspaper.",
        "User does not read a printed newspaper any more.",
        "I do not read a printed newspaper any more.",
    ),
    habit(
        "swimming",
        "User swims in the lake.",
        "I swim in the lake.",
        "User stopped swimming in the lake.",
        "I stopped swimming in the lake.",
    ),
    habit(
        "garden",
        "User rents an allotment garden.",
        "I rent an allotment garden.",
        "User no longer rents an allotment garden.",
        "I no longer rent an allotment garden.",
    ),
    habit(
        "piano",
        "User practises the piano.",
        "I practise the piano.",
        "User does not practise the piano any more.",
        "I do not practise the piano any more.",
    ),
    habit(
        "overtime",
        "User works at weekends.",
        "I work at weekends.",
        "User never works at weekends.",
        "I never work at weekends.",
    ),
];

/// What is said without saying anything about the user; no two begin alike.
pub const SMALL_TALK: [&str; 24] = [
    "Good morning!",
    "Thanks, that was helpful.",
    "Can you explain that once more?",
    "Hm, let me think about it.",
    "What do you suggest?",
    "That looks right.",
    "Please make it shorter.",
    "Ok, go on.",
    "How does that work in general?",
    "Never mind.",
    "I see.",
    "Could you translate that sentence?",
    "Great, thank you!",
    "Why is that?",
    "And what about the second option?",
    "Sorry, I was away for a moment.",
    "Let us try the other way.",
    "Is there a simpler explanation?",
    "Sounds good.",
    "Where were we?",
    "Please list the steps.",
    "Interesting.",
    "Fine with me.",
    "See you tomorrow.",
];
