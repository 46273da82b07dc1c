// Two classes of RocketMQ that have moved between 4.9 and 5.x, for FirstStart.java: those of 5.x.
package org.apache.rocketmq.common.protocol_shim;

import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public class MM {
    public static MessageModel broadcasting() {
        return MessageModel.BROADCASTING;
    }

    public static void group(DefaultMQAdminExt admin, String address, String group, boolean on) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        config.setConsumeEnable(on);
        admin.createAndUpdateSubscriptionGroupConfig(address, config);
    }
}
