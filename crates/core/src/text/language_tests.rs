//! Tests of the languages that are installed: sentences with the markers that a person gave them, queries that
//! ask for something fresh, and some of each kind that only look like it.

use super::*;

struct Sample {
    files: [&'static str; 3],
    markers: &'static [(&'static str, &'static [&'static str])],
    fresh: &'static [&'static str],
    not_fresh: &'static [&'static str],
    /// Questions asked on 15 June 2023, with the first and the last day that each means.
    times: &'static [(&'static str, &'static str, &'static str)],
    no_times: &'static [&'static str],
}

macro_rules! files {
    ($name:literal) => {
        [
            include_str!(concat!("../../../../languages/", $name, "/markers.txt")),
            include_str!(concat!("../../../../languages/", $name, "/freshness.txt")),
            include_str!(concat!("../../../../languages/", $name, "/times.txt")),
        ]
    };
}

const SAMPLES: [Sample; 5] = [
    Sample {
        files: files!("german"),
        markers: &[
            ("Wir haben beschlossen, PostgreSQL zu nehmen.", &["decision"]),
            ("Ich habe mich für die blaue Farbe entschieden.", &["decision"]),
            ("Entscheidung: Wir bleiben bei Rust.", &["decision"]),
            ("Wir haben noch nicht entschieden.", &[]),
            ("Habt ihr euch schon entschieden?", &[]),
            ("Die Daten dürfen niemals die Firma verlassen.", &["constraint"]),
            ("Ich bin allergisch gegen Erdnüsse.", &["constraint"]),
            ("Wichtig: keine Anrufe nach 20 Uhr", &["constraint"]),
            ("Meine Frau ist Vegetarierin.", &["constraint"]),
            ("Die Migration ist fehlgeschlagen.", &["failure"]),
            ("Der Drucker funktioniert nicht.", &["failure"]),
            ("Fehler: Verbindung abgelehnt", &["failure"]),
            ("Unser Ziel ist ein Start im Mai.", &["goal"]),
            ("Ich möchte bis Juni einen Marathon laufen.", &["goal"]),
            ("Wir haben vor, im Herbst umzuziehen.", &["goal"]),
            ("Das Wetter war schön.", &[]),
        ],
        fresh: &[
            "Was hat sie heute gesagt?",
            "Wo arbeitet er jetzt?",
            "letzte Woche",
            "der aktuelle Stand",
            "Was war am Montag?",
        ],
        not_fresh: &["Wo wohnt Anna?", "Guten Morgen!", "im Mai 2023", "Was isst sie gern?"],
        times: &[
            ("Was hat sie am 7. Mai 2023 gemacht?", "2023-05-07", "2023-05-07"),
            ("Wann war er im März in Rom?", "2023-03-01", "2023-03-31"),
            ("Treffen im Jänner 2022", "2022-01-01", "2022-01-31"),
            ("Wo war er im letzten Juni?", "2022-06-01", "2022-06-30"),
            ("Was war vorige Woche?", "2023-06-01", "2023-06-11"),
            ("Wo war ich vor zwei Wochen?", "2023-05-27", "2023-06-06"),
            ("Was gab es gestern zu essen?", "2023-06-14", "2023-06-14"),
        ],
        no_times: &["Was ist 30 plus 5?", "vor langer Zeit"],
    },
    Sample {
        files: files!("french"),
        markers: &[
            ("Nous avons décidé de garder PostgreSQL.", &["decision"]),
            ("J'ai finalement choisi la peinture bleue.", &["decision"]),
            ("Décision : on reste sur Rust.", &["decision"]),
            ("On n'a pas encore décidé.", &[]),
            ("Est-ce que vous avez décidé ?", &[]),
            ("Il ne faut jamais supprimer ces fichiers.", &["constraint"]),
            ("Je suis allergique aux arachides.", &["constraint"]),
            ("Ma sœur est végétarienne.", &["constraint"]),
            ("Le rapport doit absolument partir vendredi.", &["constraint"]),
            ("La migration a échoué hier soir.", &["failure"]),
            ("L'imprimante ne marche plus.", &["failure"]),
            ("Erreur : connexion refusée", &["failure"]),
            ("Notre objectif est de livrer en mai.", &["goal"]),
            ("J'ai l'intention de courir un marathon.", &["goal"]),
            ("Il faisait beau.", &[]),
        ],
        fresh: &[
            "Qu'a-t-elle dit aujourd'hui ?",
            "la semaine dernière",
            "Où travaille-t-il maintenant ?",
            "ce matin",
        ],
        not_fresh: &["Où habite Anne ?", "Bonjour !", "en mai 2023", "Qu'aime-t-elle manger ?"],
        times: &[
            ("Qu'a-t-elle fait le 7 mai 2023 ?", "2023-05-07", "2023-05-07"),
            ("le 1er juin", "2023-06-01", "2023-06-01"),
            ("Où étaient-ils en mars ?", "2023-03-01", "2023-03-31"),
            ("en juin dernier", "2022-06-01", "2022-06-30"),
            ("la semaine dernière", "2023-06-01", "2023-06-11"),
            ("il y a deux semaines", "2023-05-27", "2023-06-06"),
            ("Qu'ai-je mangé aujourd'hui ?", "2023-06-15", "2023-06-15"),
        ],
        no_times: &["Qui vit sur Mars ?"],
    },
    Sample {
        files: files!("spanish"),
        markers: &[
            ("Hemos decidido quedarnos con PostgreSQL.", &["decision"]),
            ("Al final elegí la pintura azul.", &["decision"]),
            ("Decisión: seguimos en Rust.", &["decision"]),
            ("Todavía no hemos decidido.", &[]),
            ("¿Han decidido ya?", &[]),
            ("Soy alérgica a los cacahuetes.", &["constraint"]),
            ("Los datos no pueden superar los 10 MB.", &["constraint"]),
            ("En ningún caso se borran los registros.", &["constraint"]),
            ("Mi mujer es vegetariana.", &["constraint"]),
            ("La migración falló anoche.", &["failure"]),
            ("La impresora no funciona.", &["failure"]),
            ("Error: conexión rechazada", &["failure"]),
            ("Nuestro objetivo es lanzar en mayo.", &["goal"]),
            ("Quiero correr una maratón antes de junio.", &[]),
            ("Tengo la intención de aprender chino.", &["goal"]),
            ("Hacía buen tiempo.", &[]),
        ],
        fresh: &[
            "¿Qué dijo hoy?",
            "la semana pasada",
            "¿Dónde trabaja ahora?",
            "la última versión",
        ],
        not_fresh: &[
            "¿Dónde vive Ana?",
            "a las ocho de la mañana",
            "en mayo de 2023",
            "¿Qué le gusta comer?",
        ],
        times: &[
            ("¿Qué hizo el 7 de mayo de 2023?", "2023-05-07", "2023-05-07"),
            ("¿Dónde estaban en agosto?", "2022-08-01", "2022-08-31"),
            ("en enero de 2022", "2022-01-01", "2022-01-31"),
            ("el pasado junio", "2022-06-01", "2022-06-30"),
            ("la semana pasada", "2023-06-01", "2023-06-11"),
            ("hace un par de semanas", "2023-05-27", "2023-06-06"),
            ("¿Qué comí ayer?", "2023-06-14", "2023-06-14"),
        ],
        no_times: &["hace calor"],
    },
    Sample {
        files: files!("italian"),
        markers: &[
            ("Abbiamo deciso di restare con PostgreSQL.", &["decision"]),
            ("Alla fine ho scelto la vernice blu.", &["decision"]),
            ("Decisione: restiamo su Rust.", &["decision"]),
            ("Non abbiamo ancora deciso.", &[]),
            ("Avete deciso?", &[]),
            ("Sono allergica alle arachidi.", &["constraint"]),
            ("I dati non devono uscire dall'azienda.", &["constraint"]),
            ("In nessun caso si cancellano i registri.", &["constraint"]),
            ("Mia moglie è vegetariana.", &["constraint"]),
            ("La migrazione è fallita ieri sera.", &["failure"]),
            ("La stampante non funziona.", &["failure"]),
            ("Errore: connessione rifiutata", &["failure"]),
            ("Il nostro obiettivo è partire a maggio.", &["goal"]),
            ("Ho intenzione di imparare il cinese.", &["goal"]),
            ("Il tempo era bello.", &[]),
        ],
        fresh: &[
            "Che cosa ha detto oggi?",
            "la settimana scorsa",
            "Dove lavora adesso?",
            "l'ultima ultima versione",
        ],
        not_fresh: &[
            "Dove abita Anna?",
            "a che ora parte il treno",
            "a maggio 2023",
            "Che cosa le piace mangiare?",
        ],
        times: &[
            ("Che cosa ha fatto il 7 maggio 2023?", "2023-05-07", "2023-05-07"),
            ("il 1º giugno", "2023-06-01", "2023-06-01"),
            ("a gennaio del 2022", "2022-01-01", "2022-01-31"),
            ("lo scorso giugno", "2022-06-01", "2022-06-30"),
            ("la settimana scorsa", "2023-06-01", "2023-06-11"),
            ("due settimane fa", "2023-05-27", "2023-06-06"),
            ("Che cosa ho mangiato oggi?", "2023-06-15", "2023-06-15"),
        ],
        no_times: &["tempo fa"],
    },
    Sample {
        files: files!("portuguese"),
        markers: &[
            ("Decidimos ficar com o PostgreSQL.", &["decision"]),
            ("No fim escolhi a tinta azul.", &["decision"]),
            ("Decisão: continuamos com Rust.", &["decision"]),
            ("Ainda não decidimos.", &[]),
            ("Sou alérgica a amendoim.", &["constraint"]),
            ("Os dados não podem sair da empresa.", &["constraint"]),
            ("Em hipótese alguma se apagam os registros.", &["constraint"]),
            ("Minha mulher é vegetariana.", &["constraint"]),
            ("A migração falhou ontem à noite.", &["failure"]),
            ("A impressora não funciona.", &["failure"]),
            ("Erro: conexão recusada", &["failure"]),
            ("O nosso objetivo é lançar em maio.", &["goal"]),
            ("Pretendo aprender chinês.", &["goal"]),
            ("O tempo estava bom.", &[]),
        ],
        fresh: &[
            "O que ela disse hoje?",
            "na semana passada",
            "Onde ele trabalha agora?",
            "a última versão",
        ],
        not_fresh: &["Onde mora a Ana?", "bom dia", "em maio de 2023", "O que ela gosta de comer?"],
        times: &[
            ("O que ela fez em 7 de maio de 2023?", "2023-05-07", "2023-05-07"),
            ("em março", "2023-03-01", "2023-03-31"),
            ("janeiro de 2022", "2022-01-01", "2022-01-31"),
            ("em junho passado", "2022-06-01", "2022-06-30"),
            ("na semana passada", "2023-06-01", "2023-06-11"),
            ("duas semanas atrás", "2023-05-27", "2023-06-06"),
            ("há duas semanas", "2023-05-27", "2023-06-06"),
            ("O que comi ontem?", "2023-06-14", "2023-06-14"),
        ],
        no_times: &["há muito tempo"],
    },
];

#[test]
fn installed_languages_know_markers_freshness_and_times() {
    let asked_at: DateTime<Utc> = "2023-06-15T12:00:00Z".parse().unwrap();
    let mut wrong = Vec::new();
    for sample in SAMPLES {
        let language = Language::parse(sample.files[0], sample.files[1], sample.files[2]).unwrap();
        assert_eq!(language.markers.sections(), markers::BUILT_IN);
        for (sentence, expected) in sample.markers {
            let found = language.markers(sentence);
            if found != *expected {
                wrong.push(format!("{sentence}: {found:?}"));
            }
        }
        let days = |question: &str| {
            let spans = language.times(question, asked_at);
            let last = |span: &Span| (span.to - chrono::TimeDelta::seconds(1)).date_naive();
            spans.iter().map(|span| [span.from.date_naive(), last(span)]).collect::<Vec<_>>()
        };
        for (question, first, last) in sample.times {
            let expected = [first, last].map(|day| day.parse().unwrap());
            if days(question) != [expected] {
                wrong.push(format!("{question}: {:?}", days(question)));
            }
        }
        let dated = sample.no_times.iter().filter(|question| !days(question).is_empty());
        wrong.extend(dated.map(|question| format!("{question}: {:?}", days(question))));
        for (queries, is_fresh) in [(sample.fresh, true), (sample.not_fresh, false)] {
            let other = queries.iter().filter(|query| language.asks_for_fresh(query) != is_fresh);
            wrong.extend(other.map(|query| format!("{query}: fresh is {}", !is_fresh)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
