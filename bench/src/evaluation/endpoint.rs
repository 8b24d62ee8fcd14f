//! The LLM of an evaluation: a scripted one that understands every sentence of the scenarios, or a
//! real endpoint; and the cluster that calls it.

use crate::arguments::Llm;
use crate::scenario::Scenario;
use crate::scenarios::SCENARIOS;
use memory_agent_bench::llm_scene;
use memory_agent_e2e::llm::{Change, LlmStub, ScriptedModel, Statement};
use memory_agent_e2e::{Client, Cluster};

/// A running cluster with its LLM.
pub struct Endpoint {
    pub cluster: Cluster,
    /// The LLM, when it is the scripted one.
    pub stub: Option<LlmStub>,
}

impl Endpoint {
    /// Starts a private cluster. Further settings are as in postgresql.conf.
    pub fn start(llm: &Llm, settings: &[(&str, &str)]) -> Self {
        let (stub, own) = match llm {
            Llm::Scripted => (Some(LlmStub::start(script())), Vec::new()),
            Llm::Real { base_url, model, key_file } => {
                let mut own = vec![
                    ("memory_agent.llm_base_url", base_url),
                    ("memory_agent.llm_model", model),
                ];
                own.extend(key_file.as_ref().map(|file| ("memory_agent.llm_api_key_file", file)));
                (None, own)
            }
        };
        let own = own.into_iter().map(|(name, value)| (name, value.as_str()));
        let settings: Vec<(&str, &str)> = own.chain(settings.iter().copied()).collect();
        let cluster = llm_scene::cluster(stub.as_ref(), &settings);
        Self { cluster, stub }
    }

    /// A new database with the extension and its models loaded, and a superuser's session in it.
    pub fn database(&self, name: &str) -> Client {
        llm_scene::database(&self.cluster, name)
    }
}

/// A model that makes no mistakes about what is said in the scenarios.
pub fn script() -> ScriptedModel {
    let mut model = ScriptedModel::new();
    for scenario in SCENARIOS {
        for topic in scenario.topics {
            let name = format!("{}: {}", scenario.name, topic.name);
            for value in topic.values {
                let fact = topic.fact(value);
                model = model.knows(&topic.said(value), &name, value, &fact);
                if topic.changed(value) != topic.said(value) {
                    model = model.knows(&topic.changed(value), &name, value, &fact);
                }
            }
        }
        if scenario.in_pairs {
            model = knows_pairs(model, scenario);
        }
    }
    model
}

/// Understands every message that says two things.
fn knows_pairs(mut model: ScriptedModel, scenario: &Scenario) -> ScriptedModel {
    let sentences: Vec<(&str, String, Statement)> = scenario
        .topics
        .iter()
        .flat_map(|topic| topic.values.iter().map(move |value| (topic, *value)))
        .flat_map(|(topic, value)| {
            let means = Statement {
                topic: format!("{}: {}", scenario.name, topic.name),
                value: value.to_owned(),
                fact: topic.fact(value),
                change: Change::Update,
            };
            [topic.said(value), topic.changed(value)].map(|text| (topic.name, text, means.clone()))
        })
        .collect();
    for (topic, text, means) in &sentences {
        for (_, after, means_too) in sentences.iter().filter(|(other, ..)| other != topic) {
            model =
                model.understands(&format!("{text} {after}"), &[means.clone(), means_too.clone()]);
        }
    }
    model
}
