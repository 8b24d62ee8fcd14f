import java.math.BigDecimal;
import java.sql.Array;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;

/** Calls with the types that JDBC sends; the answers as JSON. scripts/setup --tests compiles it. Usage: JdbcDriver URL */
public class JdbcDriver {
    static Connection db;

    /** The first column, as JSON: texts in quotes, numbers and truth values without. */
    static List<String> column(String sql, Object... values) throws SQLException {
        List<String> found = new ArrayList<>();
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            for (int place = 0; place < values.length; place++) {
                statement.setObject(place + 1, values[place]);
            }
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    Object value = rows.getObject(1);
                    boolean isPlain = value instanceof Number || value instanceof Boolean;
                    found.add(isPlain ? value.toString() : "\"" + value + "\"");
                }
            }
        }
        return found;
    }

    static String one(String sql, Object... values) throws SQLException {
        return column(sql, values).get(0);
    }

    static PGobject json(String text) throws SQLException {
        PGobject json = new PGobject();
        json.setType("jsonb");
        json.setValue(text);
        return json;
    }

    public static void main(String[] arguments) throws SQLException {
        db = DriverManager.getConnection(arguments[0]);
        String ingest = "SELECT memory_ingest('s', 'user', ?, user_id => 'j', metadata => ?, created_at => ?, ttl => ?)";
        one(ingest, "The dog is called Rex.", json("{\"source\": 1}"), OffsetDateTime.now(), new PGInterval("1 hour"));
        one("SELECT memory_ingest('t', 'user', ?, user_id => 'j', metadata => ?::jsonb, created_at => ?)",
            "The cat is called Tom.", "{\"source\": 2}", new Timestamp(System.currentTimeMillis()));
        String recall = "SELECT content FROM memory_recall(?, user_id => ?, top_k => ?, score_threshold => ?, "
            + "recency_weight => ?, mmr_lambda => ?, filter => ?, kinds => ?, session_id => 's')";
        Array kinds = db.createArrayOf("text", new Object[] {"turn"});
        List<String> rows = column(recall, "What is the dog called?", "j", 3, 0.01, 0.1f, new BigDecimal("0.9"),
            json("{\"kind\": [\"turn\"]}"), kinds);
        List<String> nulls = new ArrayList<>();
        String withNulls = "SELECT content FROM memory_recall('dog', user_id => 'j', session_id => ?, top_k => ?, score_threshold => ?)";
        try (PreparedStatement statement = db.prepareStatement(withNulls)) {
            statement.setString(1, "s");
            statement.setNull(2, Types.INTEGER);
            statement.setNull(3, Types.DOUBLE);
            try (ResultSet found = statement.executeQuery()) {
                while (found.next()) nulls.add("\"" + found.getString(1) + "\"");
            }
        }
        String called;
        try (CallableStatement call = db.prepareCall("{? = call memory_ingest(?, ?, ?, ?)}")) {
            call.registerOutParameter(1, Types.OTHER);
            call.setString(2, "u");
            call.setString(3, "user");
            call.setString(4, "The bird is called Kiki.");
            call.setString(5, "j");
            call.execute();
            called = column("SELECT count(*)::int FROM memory_list(id => ?, user_id => 'j')", call.getObject(1)).toString();
        }
        String refused = null;
        try {
            one("SELECT memory_recall('dog', user_id => 'j', top_k => ?)", 3_000_000_000L);
        } catch (SQLException error) {
            refused = "\"" + error.getSQLState() + "\"";
        }
        List<String> waits = new ArrayList<>();
        for (Object timeout : new Object[] {20, 20L, 20.5, new BigDecimal("20.5"), "20 s", new PGInterval("20 s")}) {
            waits.add(one("SELECT memory_wait(?, user_id => 'j')", timeout));
        }
        String hits = one("SELECT jsonb_array_length(memory_augment(?, session_id => 'new', top_k => ?, score_threshold => ?, "
            + "user_id => 'j') -> 'memory_hits') > 0", json("[{\"role\": \"user\", \"content\": \"What is the dog called?\"}]"), 3, 0.01);
        String tokens = one("SELECT (memory_context('s', 'dog', token_budget => ?, user_id => 'j') ->> 'token_count')::int <= 500", 500);
        String archived = one("SELECT count(*) FROM memory_search_archive(?, \"limit\" => ?, user_id => ?)", "dog", 3, "j");
        System.out.println("{\"rows\": " + rows + ", \"nulls\": " + nulls + ", \"called\": " + called + ", \"refused\": " + refused
            + ", \"waits\": " + waits + ", \"hits\": " + hits + ", \"tokens\": " + tokens + ", \"archived\": " + archived + "}");
    }
}
