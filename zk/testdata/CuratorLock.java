import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Locks with Curator: CuratorLock SERVERS PATH FILE CYCLES.
 *
 * <p>Inside the lock FILE must not exist; it is made and removed there.
 */
public class CuratorLock {
  public static void main(String[] args) throws Exception {
    try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100))) {
      client.start();
      InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
      Path file = Path.of(args[2]);
      for (int i = 0; i < Integer.parseInt(args[3]); i++) {
        mutex.acquire();
        try {
          Files.createFile(file);
          Files.delete(file);
        } finally {
          mutex.release();
        }
      }
    }
  }
}
