//! The tables of [`crate::agreement`], with everything about them that makes following them hard, and
//! random statements that change them.

use crate::random::Random;

/// `notes` has triggers that change and drop rows and a foreign key to itself; `swaps` a deferrable key
/// and domains; `log` partitions, a generated column for content, and policies.
pub const SETUP: &str = "
    CREATE ROLE agree_user LOGIN; CREATE ROLE agree_plain LOGIN;
    CREATE TABLE notes (
        id int PRIMARY KEY, body text, owner text, chat text, kind text,
        parent int REFERENCES notes ON UPDATE CASCADE ON DELETE SET NULL DEFERRABLE);
    CREATE FUNCTION before_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.body = 'refused' THEN RETURN NULL; END IF;
        NEW.body := replace(NEW.body, 'short', 'made longer by a trigger');
        RETURN NEW; END $$;
    CREATE FUNCTION after_note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.body = 'edited' THEN
            UPDATE notes SET body = 'edited again', kind = TG_OP WHERE id = NEW.id;
        ELSIF NEW.body = 'dropped' THEN
            DELETE FROM notes WHERE id = NEW.id;
        ELSIF NEW.body = 'doubled' THEN
            INSERT INTO notes (id, body, owner) VALUES (NEW.id + 1, 'the double', NEW.owner)
                ON CONFLICT (id) DO UPDATE SET body = 'the double';
        END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER before_note BEFORE INSERT OR UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION before_note();
    CREATE TRIGGER after_note AFTER INSERT OR UPDATE OF body ON notes FOR EACH ROW EXECUTE FUNCTION after_note();

    CREATE DOMAIN number AS int CHECK (VALUE > -1000);
    CREATE DOMAIN words AS text CHECK (length(VALUE) < 1000);
    CREATE TABLE swaps (
        id number PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, body words, owner text, kind text);

    CREATE TABLE log (
        region text, id int, title text, body text GENERATED ALWAYS AS ('log: ' || title) STORED,
        owner text, kind text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
    CREATE TABLE log_north PARTITION OF log FOR VALUES IN ('north');
    CREATE TABLE log_south PARTITION OF log FOR VALUES IN ('south');
    CREATE TABLE log_rest PARTITION OF log DEFAULT PARTITION BY RANGE (id);
    CREATE TABLE log_rest_low PARTITION OF log_rest FOR VALUES FROM (MINVALUE) TO (7);
    CREATE TABLE log_rest_high PARTITION OF log_rest FOR VALUES FROM (7) TO (MAXVALUE);
    ALTER TABLE log ENABLE ROW LEVEL SECURITY;
    ALTER TABLE log_south ENABLE ROW LEVEL SECURITY;
    CREATE POLICY most ON log USING (owner IS DISTINCT FROM 'bob');
    CREATE POLICY most ON log_south USING (owner IS DISTINCT FROM 'bob');
    GRANT ALL ON ALL TABLES IN SCHEMA public TO agree_user, agree_plain;

    SELECT memory_attach('notes', 'body', user_id_column => 'owner', session_id_column => 'chat',
                         metadata_columns => '{kind,parent}', embed => 'off');
    SELECT memory_attach('swaps', 'body', user_id_column => 'owner', metadata_columns => '{kind}', embed => 'off');
    SELECT memory_attach('log', 'body', user_id_column => 'owner', metadata_columns => '{kind}', embed => 'off')";

/// What memory has to hold of each table: key, content, user, session, metadata.
pub const CHECKS: [(&str, &str); 3] = [
    (
        "notes",
        "SELECT jsonb_build_array(id), body, owner, nullif(chat, ''), jsonb_build_object('kind', kind, 'parent', parent) \
           FROM notes WHERE body ~ '\\S' AND owner IS NOT NULL",
    ),
    (
        "swaps",
        "SELECT jsonb_build_array(id), body::text, owner, NULL, jsonb_build_object('kind', kind) \
           FROM swaps WHERE body ~ '\\S' AND owner IS NOT NULL",
    ),
    (
        "log",
        "SELECT jsonb_build_array(region, id), body, owner, NULL, jsonb_build_object('kind', kind) \
           FROM log WHERE body IS NOT NULL AND owner IS NOT NULL",
    ),
];

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Notes,
    Swaps,
    Log,
}

impl Table {
    pub fn any(random: &mut Random) -> Self {
        [Self::Notes, Self::Swaps, Self::Log][random.below(3) as usize]
    }

    fn name(self) -> &'static str {
        match self {
            Self::Notes => "notes",
            Self::Swaps => "swaps",
            Self::Log => "log",
        }
    }

    /// The columns of the key.
    fn key(self) -> &'static str {
        if self == Self::Log { "region, id" } else { "id" }
    }

    /// The column that is written of the content.
    fn text(self) -> &'static str {
        if self == Self::Log { "title" } else { "body" }
    }

    /// The columns that statements give values for, in the order of [`Self::row`].
    fn columns(self) -> String {
        format!("{}, {}, owner, kind", self.key(), self.text())
    }

    fn new_key(self, random: &mut Random) -> String {
        let id = random.below(12);
        if self == Self::Log { format!("{}, {id}", region(random)) } else { id.to_string() }
    }

    fn row(self, random: &mut Random) -> String {
        format!("{}, {}, {}, {}", self.new_key(random), words(random), owner(random), kind(random))
    }

    fn rows(self, random: &mut Random) -> String {
        let rows: Vec<String> =
            (0..=random.below(3)).map(|_| format!("({})", self.row(random))).collect();
        rows.join(", ")
    }

    /// Which rows a statement is about.
    fn which(self, random: &mut Random) -> String {
        match random.below(6) {
            0..3 => format!("id = {}", random.below(12)),
            3 => format!("id % 3 = {}", random.below(3)),
            4 => format!("{} = {}", self.text(), words(random)),
            _ => format!("owner = {}", owner(random)),
        }
    }

    /// What an UPDATE sets.
    fn set(self, random: &mut Random) -> String {
        match random.below(8) {
            0..3 => format!("{} = {}", self.text(), words(random)),
            3 => format!("owner = {}", owner(random)),
            4 => format!("kind = {}", kind(random)),
            5 => {
                let id = random.below(12);
                let moved = ["id = id + 1", "id = id - 1", "id = 11 - id"];
                moved
                    .get(random.below(4) as usize)
                    .map_or(format!("id = {id}"), ToString::to_string)
            }
            _ => match self {
                Self::Notes if random.below(2) == 0 => {
                    format!("chat = {}", ["NULL", "''", "'c1'"][random.below(3) as usize])
                }
                Self::Notes => format!("parent = {}", random.below(12)),
                Self::Swaps => "id = 11 - id".to_owned(),
                Self::Log => format!("region = {}", region(random)),
            },
        }
    }

    /// The table, or one of its partitions.
    fn part(self, random: &mut Random) -> &'static str {
        let parts = ["log_north", "log_south", "log_rest", "log_rest_high"];
        if self == Self::Log { parts[random.below(4) as usize] } else { self.name() }
    }

    /// A statement that changes the table.
    pub fn statement(self, random: &mut Random) -> String {
        let (name, columns, text) = (self.name(), self.columns(), self.text());
        let excluded = ["kind = excluded.kind", "owner = 'carol'"][random.below(2) as usize];
        match random.below(17) {
            0..3 => format!("INSERT INTO {name} ({columns}) VALUES {}", self.rows(random)),
            3..5 if self != Self::Swaps => format!(
                "INSERT INTO {name} ({columns}) VALUES {} ON CONFLICT ({}) DO UPDATE SET {text} = excluded.{text}, {excluded}",
                self.rows(random),
                self.key()
            ),
            5 if self != Self::Swaps => {
                format!(
                    "INSERT INTO {name} ({columns}) VALUES {} ON CONFLICT DO NOTHING",
                    self.rows(random)
                )
            }
            6..10 => format!("UPDATE {name} SET {} WHERE {}", self.set(random), self.which(random)),
            10 => format!(
                "UPDATE {} SET {} WHERE {}",
                self.part(random),
                self.set(random),
                self.which(random)
            ),
            11 => format!("DELETE FROM {name} WHERE {}", self.which(random)),
            12 => {
                let given: Vec<String> =
                    columns.split(", ").map(|name| format!("new_{name}")).collect();
                let and = if self == Self::Log { "AND t.region = v.new_region" } else { "" };
                format!(
                    "MERGE INTO {name} t USING (VALUES {}) v({given}) ON t.id = v.new_id {and} \
                      WHEN MATCHED AND v.new_kind = 'k1' THEN DELETE WHEN MATCHED THEN UPDATE SET {} \
                      WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({given})",
                    self.rows(random),
                    self.set(random),
                    given = given.join(", ")
                )
            }
            13 => {
                let limit = ["", "LIMIT 1"][random.below(2) as usize];
                format!(
                    "WITH gone AS (DELETE FROM {name} WHERE {} RETURNING *) \
                     INSERT INTO {name} ({columns}) SELECT {}, {}, owner, kind FROM gone {limit}",
                    self.which(random),
                    self.key(),
                    words(random)
                )
            }
            14 => format!(
                "WITH one AS (UPDATE {name} SET {} WHERE {}), two AS (DELETE FROM {name} WHERE {}) \
                 INSERT INTO {name} ({columns}) VALUES {}",
                self.set(random),
                self.which(random),
                self.which(random),
                self.rows(random)
            ),
            15 => format!(
                "DO $$ BEGIN UPDATE {name} SET {}; DELETE FROM {name} WHERE {}; \
                    BEGIN DELETE FROM {name}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$",
                self.set(random),
                self.which(random)
            ),
            // Of a superuser only; others are refused.
            _ if random.below(3) == 0 => format!(
                "COPY {name} ({}, {text}, owner) FROM PROGRAM 'echo {},copied,alice' (FORMAT csv)",
                self.key(),
                self.new_key(random).replace('\'', "")
            ),
            _ if random.below(4) == 0 => format!("TRUNCATE {} CASCADE", self.part(random)),
            _ => format!("DELETE FROM {} WHERE {}", self.part(random), self.which(random)),
        }
    }
}

fn region(random: &mut Random) -> &'static str {
    ["'north'", "'south'", "'east'", "'west'"][random.below(4) as usize]
}

fn words(random: &mut Random) -> String {
    let words =
        ["'edited'", "'dropped'", "'doubled'", "'refused'", "'a short note'", "' '", "NULL"];
    let word = words.get(random.below(14) as usize);
    word.map_or_else(|| format!("'note {}'", random.below(5)), ToString::to_string)
}

fn owner(random: &mut Random) -> &'static str {
    ["'alice'", "'alice'", "'bob'", "'carol'", "NULL"][random.below(5) as usize]
}

fn kind(random: &mut Random) -> &'static str {
    ["'k1'", "'k2'", "NULL"][random.below(3) as usize]
}
