-- What is remembered of a person who plans a move: turns, facts with what they were made from, one that was
-- replaced twice, summaries. The ids are fixed, so that tests can name them.
SET memory_agent.user_id = 'ann';

CREATE TEMP TABLE said (id uuid, session text, role text, at timestamptz, text text);
INSERT INTO said VALUES
    ('0199c3a5-0000-7000-8000-000000000101', 'moving', 'user', '2026-03-02 09:12+00', 'We live in Hamburg, near the harbour, but the company wants me in Lisbon from autumn on.'),
    ('0199c3a5-0000-7000-8000-000000000102', 'moving', 'assistant', '2026-03-02 09:12:20+00', 'That is a big change. Shall we make a list of what has to be settled first?'),
    ('0199c3a5-0000-7000-8000-000000000103', 'moving', 'user', '2026-03-02 09:14+00', 'Yes. First a school: Lena is seven, she speaks German and a little Portuguese.'),
    ('0199c3a5-0000-7000-8000-000000000104', 'moving', 'assistant', '2026-03-02 09:14:30+00', 'The German school in Lisbon takes children of that age. Registration ends on 30 April.'),
    ('0199c3a5-0000-7000-8000-000000000105', 'moving', 'user', '2026-06-18 17:40+00', 'We signed the lease! Rua das Flores 12, from the first of September.'),
    ('0199c3a5-0000-7000-8000-000000000106', 'moving', 'assistant', '2026-06-18 17:40:25+00', 'Congratulations. I noted the address; the flat in Hamburg has to be given up by the end of June, then.'),
    ('0199c3a5-0000-7000-8000-000000000107', 'moving', 'user', '2026-09-05 20:03+00', 'We have arrived in Lisbon. Boxes everywhere.'),
    ('0199c3a5-0000-7000-8000-000000000201', 'kitchen', 'user', '2026-04-11 18:30+00', 'Lena is allergic to hazelnuts, so please never suggest anything with them.'),
    ('0199c3a5-0000-7000-8000-000000000202', 'kitchen', 'assistant', '2026-04-11 18:30:15+00', 'Understood: no hazelnuts, and I will watch for nougat and pralines too.'),
    ('0199c3a5-0000-7000-8000-000000000203', 'kitchen', 'user', '2026-10-24 12:05+00', 'I stopped eating meat this month. Fish is fine.'),
    ('0199c3a5-0000-7000-8000-000000000204', 'kitchen', 'assistant', '2026-10-24 12:05:20+00', 'Then bacalhau à Brás without ham would be a good start in Lisbon.'),
    ('0199c3a5-0000-7000-8000-000000000301', 'work', 'user', '2026-05-07 07:55+00', 'My new team builds the tide forecasts. Stand-up is at half past nine, Lisbon time.'),
    ('0199c3a5-0000-7000-8000-000000000302', 'work', 'assistant', '2026-05-07 07:55:30+00', 'That is half past ten in Hamburg. Shall I plan your mornings around it?'),
    ('0199c3a5-0000-7000-8000-000000000303', 'work', 'user', '2026-11-12 08:02+00', 'Decision: we store the forecasts in PostgreSQL, one table per month.');

SELECT memory_import_markdown(
           format('entries/%s/turns/%s/%s.md', session, role, id),
           format(E'---\nid: %s\ncreated_at: %s\nconversation_id: %s\nrole: %s\n---\n%s\n',
                  id, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), session, role, text))
  FROM said ORDER BY at;

CREATE TEMP TABLE known (id uuid, session text, at timestamptz, fact_key text, confidence real, source uuid,
                         ended timestamptz, replaced_by uuid, text text);
INSERT INTO known VALUES
    ('0199c3a5-0000-7000-8000-000000000a01', 'global', '2026-03-02 09:12:40+00', NULL, .95, '0199c3a5-0000-7000-8000-000000000101', '2026-06-18 17:41+00', '0199c3a5-0000-7000-8000-000000000a02', 'Ann lives in Hamburg.'),
    ('0199c3a5-0000-7000-8000-000000000a02', 'global', '2026-06-18 17:41+00', NULL, .9, '0199c3a5-0000-7000-8000-000000000105', '2026-09-05 20:04+00', '0199c3a5-0000-7000-8000-000000000a03', 'Ann moves from Hamburg to Rua das Flores 12 in Lisbon in September 2026.'),
    ('0199c3a5-0000-7000-8000-000000000a03', 'global', '2026-09-05 20:04+00', 'home', .97, '0199c3a5-0000-7000-8000-000000000107', NULL, NULL, 'Ann lives at Rua das Flores 12 in Lisbon.'),
    ('0199c3a5-0000-7000-8000-000000000a04', 'global', '2026-03-02 09:15+00', NULL, .9, '0199c3a5-0000-7000-8000-000000000103', NULL, NULL, 'Ann''s daughter Lena is seven and speaks German and a little Portuguese.'),
    ('0199c3a5-0000-7000-8000-000000000a05', 'global', '2026-04-11 18:31+00', 'allergies of Lena', .99, '0199c3a5-0000-7000-8000-000000000201', NULL, NULL, 'Lena is allergic to hazelnuts.'),
    ('0199c3a5-0000-7000-8000-000000000a06', 'global', '2026-10-24 12:06+00', 'diet', .92, '0199c3a5-0000-7000-8000-000000000203', NULL, NULL, 'Ann eats fish but no meat since October 2026.'),
    ('0199c3a5-0000-7000-8000-000000000a07', 'global', '2026-05-07 07:56+00', NULL, .9, '0199c3a5-0000-7000-8000-000000000301', NULL, NULL, 'Ann works in the team that builds tide forecasts; its stand-up is at 9:30, Lisbon time.'),
    ('0199c3a5-0000-7000-8000-000000000a08', 'work', '2026-11-12 08:03+00', NULL, .9, '0199c3a5-0000-7000-8000-000000000303', NULL, NULL, 'The team stores forecasts in PostgreSQL, one table per month.');

SELECT memory_import_markdown(
           format('entries/%s/%sfacts/%s.md', session, CASE WHEN ended IS NOT NULL THEN 'deleted/' END, id),
           concat(E'---\nid: ', id, E'\ncreated_at: ', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                  E'\nconversation_id: ', session, E'\nrole: memory\nkind: fact\nconfidence: ', confidence,
                  E'\nsource_ids: ["', source, E'"]\n', E'fact_key: ' || fact_key || E'\n',
                  E'state: inactive\nstate_reason: superseded\nstate_at: '
                      || to_char(ended AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                      || E'\nvalid_to: ' || to_char(ended AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
                      || E'\nreplaced_by: ' || replaced_by || E'\n',
                  E'---\n', text, E'\n'))
  FROM known ORDER BY ended IS NOT NULL, at;

SELECT memory_import_markdown(format('entries/%s/summaries/L3/final.md', session),
           format(E'---\ncreated_at: %s\nconversation_id: %s\nrole: summary\nsummary_kind: L3\n---\n%s\n', at, session, text))
  FROM (VALUES
    ('moving', '2026-09-05T20:10:00Z', 'Ann''s family moved from Hamburg to Lisbon. Lena goes to the German school; the lease of Rua das Flores 12 began on 1 September 2026.'),
    ('kitchen', '2026-10-24T12:10:00Z', 'Recipes without hazelnuts for Lena, and without meat for Ann since October.'),
    ('work', '2026-11-12T08:10:00Z', 'Ann''s team builds tide forecasts and keeps them in PostgreSQL.')
  ) AS summaries(session, at, text);
