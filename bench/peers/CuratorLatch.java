import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.RetryOneTime;

/** Candidates that lead in turn by LeaderLatch. See peers.go for how it is called. */
final class CuratorLatch {
    private static final int TIMEOUT_MS = 15_000;

    private CuratorLatch() {}

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[2]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], TIMEOUT_MS, TIMEOUT_MS, new RetryOneTime(100));
            client.start();
            if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + args[0]);
            }
            clients.add(client);
        }
        System.out.println("ready");
        ExecutorService threads = Executors.newFixedThreadPool(count);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            long limit = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(line));
            long start = System.nanoTime();
            List<Callable<List<Long>>> work = new ArrayList<>();
            for (CuratorFramework client : clients) {
                work.add(() -> takeTurns(client, args[1], start, limit));
            }
            List<Long> moments = new ArrayList<>();
            for (Future<List<Long>> own : threads.invokeAll(work)) {
                moments.addAll(own.get());
            }
            System.out.println(moments);
        }
        threads.shutdown();
        for (CuratorFramework client : clients) {
            client.close();
        }
    }

    /** A latch that was closed can't be started again, so each turn has its own. */
    private static List<Long> takeTurns(CuratorFramework client, String path, long start, long limit) throws Exception {
        List<Long> moments = new ArrayList<>();
        do {
            LeaderLatch latch = new LeaderLatch(client, path);
            latch.start();
            latch.await();
            moments.add(System.nanoTime() - start);
            latch.close();
        } while (System.nanoTime() - start < limit);
        return moments;
    }
}
