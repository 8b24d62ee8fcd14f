//! What is talked of between the statements that count: questions of a user at work and the answers of
//! an assistant. They say nothing about any topic, and use the words of all of them.

/// What the user says, and the answer. As many as the longest conversation needs.
pub const SMALL_TALK: [(&str, &str); 44] = [
    (
        "How does connection pooling work in general?",
        "A pool keeps some connections open and lends them out, so that nobody waits for a new one.",
    ),
    (
        "Can you explain the difference between a process and a thread?",
        "Threads share the memory of their process; processes do not share theirs.",
    ),
    (
        "Write a commit message for a change of the error texts, please.",
        "Say in error texts what to do next. The old ones only named the failing step.",
    ),
    (
        "What is a good name for a function that removes old rows?",
        "Something that says which rows: remove_rows_before, for example.",
    ),
    (
        "Please make the last paragraph shorter.",
        "Here it is in one sentence: the service starts, reads its settings and waits for work.",
    ),
    ("Thanks, that was helpful.", "You are welcome."),
    (
        "Is there a simpler way to sort a list of people by age?",
        "Sort with the age as key, and by name where two are of the same age.",
    ),
    (
        "What should a good bug report contain?",
        "What was done, what was expected, what happened instead, and the version.",
    ),
    (
        "How do I read the output of EXPLAIN?",
        "From the inside out: the innermost node runs first, and its rows go to the one around it.",
    ),
    (
        "Could you translate that sentence?",
        "I can do that when you tell me the sentence and into which language.",
    ),
    (
        "Why are indexes not always used by the planner?",
        "Reading the whole table is cheaper when most rows are wanted anyway.",
    ),
    ("Let me think about it for a moment.", "Take your time. I will be here."),
    ("What does idempotent mean?", "That doing it twice has the same effect as doing it once."),
    (
        "How long does a code review usually take?",
        "Small changes take minutes, large ones are better cut into small ones.",
    ),
    (
        "Give me an idea for the team lunch.",
        "A place with long tables and something for everybody, a noodle bar perhaps.",
    ),
    (
        "What are the pros and cons of microservices?",
        "They can be released apart and fail apart; in return everything between them is a network.",
    ),
    (
        "How would you structure a presentation about testing?",
        "Begin with a bug that cost a lot, then the test that would have found it.",
    ),
    ("Ok, go on.", "The next step is to look at the logs of the last hour."),
    (
        "Can regular expressions match nested brackets?",
        "Not in general. Take a parser that counts them.",
    ),
    (
        "What is the weather usually like in autumn?",
        "Changeable: bring a jacket and hope for a clear day.",
    ),
    (
        "How do people measure the quality of a search?",
        "With questions whose answers are known: how many are among the first rows?",
    ),
    ("I was away for a while. Where were we?", "We were going through the open points one by one."),
    (
        "Please list the steps of a release in general.",
        "Freeze, test, tag, build, publish, announce, and watch what happens.",
    ),
    (
        "What is a circuit breaker in software?",
        "It stops calling a service that keeps failing, and tries again after a pause.",
    ),
    (
        "Do you know a good exercise for the back?",
        "Stand up every hour, and pull your shoulders back a few times.",
    ),
    (
        "How do I undo the last commit?",
        "Reset softly to the commit before; your changes stay in the working tree.",
    ),
    ("Which is better, tabs or blanks?", "The one that the rest of the file uses."),
    (
        "What does eventual consistency mean for a reader?",
        "A reader may see an older state for a while, but not for ever.",
    ),
    ("Could you check my arithmetic later?", "Gladly. Send it over when you are ready."),
    ("How can a meeting be kept short?", "With an agenda, a clock, and somebody who watches both."),
    (
        "Explain what a hash table does, as if to a child.",
        "It is a wall of numbered boxes and a rule that says which toy goes into which box.",
    ),
    (
        "What is a sensible timeout for a call over the network?",
        "As long as the caller can wait, and shorter than its own timeout.",
    ),
    (
        "Is it normal that tests are flaky?",
        "It is common, and each of them hides a race that somebody will meet one day.",
    ),
    (
        "How do I word a polite refusal?",
        "Thank them, say no in one sentence, and offer what you can do instead.",
    ),
    (
        "What is the point of a changelog?",
        "Users see what changed for them without reading the commits.",
    ),
    (
        "Can you recommend a way to take notes?",
        "Write down what you would have to look up again, with the date.",
    ),
    (
        "How does a bloom filter save time?",
        "It says for certain that something is not there, so that nobody has to look.",
    ),
    ("Never mind, I found it.", "Good. Tell me if it turns up again."),
    ("What makes a good variable name?", "It says what the value is, not how it is stored."),
    ("How do you explain recursion?", "To understand it, understand a smaller case of it first."),
    (
        "What can I cook from lentils and carrots?",
        "A soup with cumin, or a salad if there is a lemon left.",
    ),
    (
        "How do large teams avoid merge conflicts?",
        "They merge small changes often, and do not reformat what they do not change.",
    ),
    (
        "What is the difference between latency and throughput?",
        "One is how long a request takes, the other how many there are in a second.",
    ),
    ("That looks right to me.", "Then let us go to the next point."),
];

/// How the assistant takes note of a statement, without repeating it.
pub const NOTED: [&str; 4] = [
    "Understood, I will keep that in mind.",
    "Good to know, thank you.",
    "All right, I made a note of it.",
    "Thanks for telling me.",
];
