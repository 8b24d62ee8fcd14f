//! Texts that look the same are the same, and words of scripts without blanks are found by themselves.

use memory_agent_e2e::memory::{ingest_all, recalled_texts, run, value};
use memory_agent_e2e::{Client, Uuid, expect_error, shared_without_worker};

fn client(database: &str) -> Client {
    let mut client = shared_without_worker().database(database).connect();
    // By words alone.
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    client
}

/// A part of one of the texts brings that text first.
#[track_caller]
fn finds(client: &mut Client, texts: &[&str], sought: &[(&str, usize)]) {
    ingest_all(client, "s", texts);
    for (words, place) in sought {
        let found = recalled_texts(client, &format!("'{words}', session_id => 's'"));
        assert_eq!(found.first().map(String::as_str), Some(texts[*place]), "{words}: {found:?}");
    }
}

#[test]
fn chinese_words_are_found() {
    let texts = [
        "妈妈对花生过敏，所以我们不买花生酱。",
        "我住在上海，在一家银行工作。",
        "周末我喜欢去公园跑步。",
        "我的猫叫小黑，今年三岁。",
        "弟弟在北京学习物理。",
        "我每天早上喝绿茶。",
    ];
    finds(
        &mut client("unicode_chinese"),
        &texts,
        &[
            ("花生过敏", 0),
            ("上海", 1),
            ("银行", 1),
            ("跑步", 2),
            ("小黑", 3),
            ("物理", 4),
            ("绿茶", 5),
        ],
    );
}

#[test]
fn japanese_korean_and_thai_words_are_found() {
    let texts = [
        "母はピーナッツアレルギーです。",
        "私は東京の銀行で働いています。",
        "猫の名前はタマです。",
        "어머니는 땅콩 알레르기가 있습니다.",
        "저는 서울에서 은행에 다녀요.",
        "고양이 이름은 나비예요.",
        "แม่แพ้ถั่วลิสง",
        "ฉันทำงานที่ธนาคารในกรุงเทพ",
        "แมวของฉันชื่อมะลิ",
    ];
    finds(
        &mut client("unicode_unspaced"),
        &texts,
        &[
            ("ピーナッツ", 0),
            ("銀行", 1),
            ("タマ", 2),
            ("땅콩", 3),
            ("서울", 4),
            ("고양이", 5),
            ("ถั่วลิสง", 6),
            ("ธนาคาร", 7),
            ("มะลิ", 8),
        ],
    );
}

#[test]
fn one_text_in_two_forms_is_one_fact() {
    let mut client = client("unicode_forms");
    let mut add = |text: &str| -> Uuid {
        value(&mut client, "SELECT memory_add($1, infer => false)", &[&text])
    };
    let composed = add("Chlo\u{e9} Dupr\u{e9} f\u{fc}hrt das Salon.");
    assert_eq!(add("Chloe\u{301} Dupre\u{301} fu\u{308}hrt das Salon."), composed);
    assert_eq!(add("Chlo\u{e9} Dupr\u{e9}\u{200b} f\u{fc}hrt das Sa\u{ad}lon."), composed);
    // What is stored stays as it was written.
    add("Die Hasel\u{ad}nuss\u{ad}allergie ist o\u{fb03}cial.");
    add("Der Code ist \u{ff21}\u{ff22}\u{ff23}\u{ff11}\u{ff12}\u{ff13}.");
    for (words, text) in [
        ("Dupre\u{301}", "Chlo\u{e9} Dupr\u{e9} f\u{fc}hrt das Salon."),
        ("Haselnussallergie", "Die Hasel\u{ad}nuss\u{ad}allergie ist o\u{fb03}cial."),
        ("official", "Die Hasel\u{ad}nuss\u{ad}allergie ist o\u{fb03}cial."),
        ("ABC123", "Der Code ist \u{ff21}\u{ff22}\u{ff23}\u{ff11}\u{ff12}\u{ff13}."),
    ] {
        assert_eq!(recalled_texts(&mut client, &format!("'{words}'"))[0], text, "{words}");
    }
}

#[test]
fn what_shows_nothing_is_refused() {
    let mut client = client("unicode_blank");
    for text in ["\u{200b}", "\u{2060}\u{feff} ", "\u{3164}"] {
        let call = format!("SELECT memory_ingest('s', 'user', '{text}')");
        let error = expect_error(client.batch_execute(&call), "22023");
        assert!(error.contains("at least one character that can be seen"), "{error}");
    }
}
